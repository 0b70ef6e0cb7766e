"""Tests that repeat, at greater length or with other values, what a shorter test shows.

`make test` leaves them out, so that it ends within 25 minutes on two cores; `make test-long` runs
them. A plugin of pytest: it marks them `long`. Each entry is the beginning of a test's name, with
the test that stays in the suite for the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

_KILLS = "journeys/test_kills.py::test_everything_is_back_within_a_minute"
_BINDS = "wire/test_speed_limits.py::test_an_engine_at_a_distance_says_what_binds"
_DEAD = "mirrors/test_dead_addresses.py::test_a_failover_goes_through"
_REFUSED = (
    "spark/test_between_offsets.py::"
    "test_offsets_that_the_source_does_not_hold_are_refused_before_anything_is_copied"
)
_COPIES = "security/test_flows_copy.py::test_copies_through_brokers_that_demand_it_on_both_sides"
_DISTANCE = "wire/test_distance.py::test_every_record_crosses_a_distance_once"
_COMPOSE = "services/test_services.py"
_RIGHTS = "api/test_object_rights.py"
_ANSWERS = f"{_RIGHTS}::test_every_address_answers_as_declared_and_shows_nothing_of_the_other_team"
_LEVELS = "wire/test_transaction_versions.py::test_every_record_crosses_once_whatever_befalls"
_APPLICATION = "spark/test_application_failback.py"
_SEARCH = "wire/test_chaos_search.py"
_FIRST = "spark/test_first_start.py"
_INTERRUPTED = (
    "spark/test_user_code.py::"
    "test_what_hangs_dies_or_grows_is_a_dead_letter_and_a_comparison_says_so"
)
_HOSTS = "spark/test_host_failover.py"
_TERRAFORM = "terraform/test_refusals.py::test_a_wrong_configuration_gets_one_sentence"

LONG: Mapping[str, str] = {
    # Whole programs, started again and again.
    "spark/test_lost_cluster.py": "spark/test_standalone.py, spark/test_full_slots.py",
    "demo/test_start_again.py": "demo/test_commands.py, demo/test_startup_checks.py",
    "demo/test_commands.py::test_demo_json_lets_a_program_in_and_ctrl_c_ends_all": (
        "demo/test_commands.py::test_a_killed_demo_leaves_no_process_and_the_next_one_takes_over"
    ),
    "demo/test_commands.py::test_the_check_compares_what_crossed_both_ways_and_stops_all": (
        "journeys/test_kills.py::test_nothing_was_lost_or_repeated, the same comparison both ways; "
        "demo/test_commands.py::test_a_killed_demo_leaves_no_process"
    ),
    "demo/test_brokers.py::test_three_brokers_form_a_cluster_that_survives_one": (
        "wire/test_failed_brokers.py"
    ),
    "demo/test_traffic.py::test_traffic_flows_survives_a_dead_broker": "demo/test_commands.py",
    f"{_COMPOSE}::test_the_health_checks_of_the_file_come_to_say_yes": (
        f"{_COMPOSE}::test_worker_tasks_and_beat_make_it_ready"
    ),
    f"{_COMPOSE}::test_a_record_crosses_and_then_all_of_it_stops_and_leaves_no_process": (
        f"{_COMPOSE}::test_worker_tasks_and_beat_make_it_ready; journeys/test_kills.py; "
        "mirrors/test_celery.py::test_the_workers_and_beat_killed_and_back"
    ),
    "groups/test_java_readers.py": "groups/test_upstream_cases.py and the golden bytes",
    "journeys/test_comparison.py": "spark/test_comparison.py, mirrors/test_comparison*",
    "journeys/test_full_replication.py": (
        "journeys/test_kills.py::test_nothing_was_lost_or_repeated, with the same traffic"
    ),
    "security/test_round_trip.py": (
        "security/test_least_privilege.py and spark/test_failback.py, each without the other"
    ),
    "mirrors/test_failover_without_source.py": "journeys/test_judged_failover.py",
    "spark/test_compiled.py::test_the_laws_of_batches_hold_in_machine_code_too": (
        "make test-native; the same laws interpreted in wire"
    ),
    "services/test_serve.py::test_it_starts_again_with_the_same_key": (
        "services/test_serve.py::test_a_program_that_is_killed_comes_back; "
        "demo/test_commands.py::test_a_killed_demo_leaves_no_process"
    ),
    "mirrors/test_postgres.py::test_all_of_it_passes_on_postgresql[repeated]": (
        "mirrors/test_postgres.py::test_all_of_it_passes_on_postgresql[usual]"
    ),
    "bench/test_web.py::test_a_seeded_database_is_whole_and_every_page_is_timed": (
        "pages/test_every_page.py; the other tests of bench/test_web.py"
    ),
    "bench/test_runs.py::test_an_index_that_is_read_from_the_topic_holds_the_same_runs": (
        "bench/test_runs.py, the other tests; spark/test_every_offset.py"
    ),
    "bench/test_run.py::test_live_traffic_that_differs_has_no_figures_either": (
        "bench/test_run.py::test_a_copy_that_differs_has_no_figures"
    ),
    "test_packages.py::test_uv_installs_from_where_pip_is_told_to_look": (
        "test_packages.py::test_pip_installs_the_packages_where_uv_cannot_be_had; make test itself"
    ),
    # They measure seconds while nothing else may run.
    "spark/test_response_times.py": "spark/test_commands.py",
    "spark/test_user_code_in_spark.py::test_user_code_evaluates_thousands_of_records_a_second": (
        "spark/test_user_code_in_spark.py, the other tests"
    ),
    "kafka/test_source_scan.py::test_deletion_that_overtakes_a_paused_flow_is_foretold": (
        "monitoring/test_forecast.py; kafka/test_source_scan.py, the other tests"
    ),
    f"{_HOSTS}::test_a_host_that_is_cut_off_from_the_database_stops_and_is_replaced": (
        f"{_HOSTS}::test_a_killed_host_is_replaced_within_a_minute; mirrors/test_hosts.py"
    ),
    f"{_HOSTS}::test_an_upgrade_host_by_host_pauses_copying_for_one_handover": (
        f"{_HOSTS}::test_a_killed_host_is_replaced_within_a_minute; mirrors/test_host_drains.py"
    ),
    # Of rounds by seed one stays of each kind.
    "journeys/test_true_statements.py::test_no_statement_is_more_optimistic_than_the_truth[153]": (
        "the same with seed 131; make test-judge"
    ),
    f"{_SEARCH}::test_every_record_crosses_once_whatever_is_refused_lost_or_killed[27]": (
        "the same with seed 12"
    ),
    f"{_SEARCH}::test_with_rules_every_kept_record_crosses_once[35]": "the same with seed 33",
    f"{_SEARCH}::test_with_routes_every_record_crosses_once_into_its_topic[42]": (
        "the same with seed 41"
    ),
    f"{_SEARCH}::test_with_routes_every_record_crosses_once_into_its_topic[43]": (
        "the same with seed 41"
    ),
    # Victims that no other test kills stay: the runner and a broker of the whole.
    f"{_KILLS}[redis]": "mirrors/test_celery.py::test_redis_killed_and_back",
    f"{_KILLS}[web]": "services/test_serve.py::test_a_program_that_is_killed_comes_back",
    f"{_KILLS}[backup]": f"{_KILLS}[primary]",
    f"{_KILLS}[beat]": "mirrors/test_celery.py::test_the_workers_and_beat_killed_and_back",
    f"{_KILLS}[celery-tasks]": "mirrors/test_celery.py::test_the_workers_and_beat_killed_and_back",
    f"{_KILLS}[celery-reconcile]": (
        "mirrors/test_celery.py::test_the_workers_and_beat_killed_and_back"
    ),
    f"{_KILLS}[python worker]": (
        "spark/test_crashes.py::test_a_killed_worker_is_replaced_and_nothing_is_lost_or_repeated"
    ),
    "spark/test_crashes.py::test_a_killed_runner_goes_on_where_it_was_committed": (
        f"{_KILLS}[runner]"
    ),
    "spark/test_standalone.py::test_a_flow_of_more_tasks_than_slots": (
        "spark/test_standalone.py::test_an_executor_killed_under_load"
    ),
    "spark/test_spark_hosts.py": (
        "spark/test_standalone.py::test_an_executor_killed_under_load and test_spark_settings.py"
    ),
    "spark/test_runner_process.py::test_a_master_that_is_none_or_does_not_answer_is_said[local": (
        "the same with sprak://x"
    ),
    "spark/test_crashes.py::test_a_second_runner_with_the_same_flow_fences_the_first[running]": (
        "the same with a first one that is frozen and revived"
    ),
    "spark/test_renamed_topics.py::test_both_sides_of_a_renamed_topic_end_as_the_union": (
        "spark/test_renamed_topics.py, the other test; "
        "spark/test_failback.py::test_with_the_default_names_nothing_of_the_other_side_comes_back"
    ),
    "spark/test_datasource.py::test_renamed_topics_and_routes_have_the_names_and_offsets": (
        "mirrors/test_routed_offsets.py, domain/test_datasource_runs.py"
    ),
    "spark/test_user_code.py::test_killed_processes_and_workers_lose_and_repeat_nothing": (
        "spark/test_rules.py::test_killed_workers_lose_and_repeat_nothing; "
        "spark/test_user_code.py::test_what_hangs_dies_or_grows_is_a_dead_letter"
    ),
    f"{_INTERRUPTED}[hangs-grows]": f"{_INTERRUPTED}[dies]; spark/test_user_functions.py",
    "spark/test_routes.py::test_killed_workers_lose_and_repeat_nothing_in_any_target_topic": (
        "spark/test_rules.py::test_killed_workers_lose_and_repeat_nothing; "
        f"{_SEARCH}::test_with_routes_every_record_crosses_once_into_its_topic[41]"
    ),
    "spark/test_commands.py::test_removing_and_restarting_many_times_repeats_nothing": (
        "spark/test_commands.py::test_a_flow_removed_and_written_again_at_once_goes_on"
    ),
    "spark/test_refusals.py::test_a_topic_deleted_and_created_again_is_not_read_on": (
        "spark/test_gaps.py::test_a_topic_made_anew_is_copied_from_its_beginning"
    ),
    "spark/test_user_code_in_spark.py::test_a_record_that_ends_the_process_fails": (
        "spark/test_user_code.py::test_what_hangs_dies_or_grows_is_a_dead_letter; "
        "spark/test_user_functions.py::test_a_record_that_ends_the_process_fails_alone"
    ),
    # The other value of a parameter.
    "spark/test_failover_with_rules.py::test_every_group_resumes_at_the_right_record_there_and_back"
    "[identity]": "the same with the default names",
    "spark/test_gaps.py::test_a_cut_remote_partition_is_gone_on_with_when_a_person_says_so"
    "[accept]": "the same with restart; test_an_accepted_gap_is_passed_once",
    "spark/test_positions.py::test_a_flow_begins_where_it_was_told_to[earliest": (
        "the same with latest and with a moment; every flow without the setting"
    ),
    "api/test_filters.py::test_every_filter_of_every_list_takes_every_value[1]": (
        "the same with turn 0: each value with other filters"
    ),
    "api/test_filters.py::test_every_filter_of_every_list_takes_every_value[2]": (
        "the same with turn 0: each value with other filters"
    ),
    **{
        f"api/test_account.py::test_every_statement_of_a_revision_adds_up[{seed}]": (
            "the same with the seeds 0 to 5"
        )
        for seed in range(6, 12)
    },
    "api/test_filters.py::test_every_page_takes_every_value_in_its_address[1]": (
        "the same with turn 0: each page with other names"
    ),
    "browser/test_appearance.py::test_every_page_is_accessible_quiet_in_the_console_and_fits_every"
    "_width_in_both_themes[each": "the same with once: elements of the same colors are alike",
    "pages/test_tables.py::test_no_query_string_breaks_a_page[1]": (
        "the same with share 3: each page with a third of the queries, by turns"
    ),
    "wire/test_fetch_sessions.py::test_a_session_that_the_broker_does_not_know_is_begun_anew"
    "[_session-": "the same with the number of an epoch",
    "spark/test_takeover.py::test_the_first_start_goes_on_where_mm2_stopped[{}->": (
        "the same with the usual name of the connector"
    ),
    f"{_FIRST}::test_members_of_mm2s_group_count_unless_its_connector_is_disabled[false]": (
        f"the same with true; {_FIRST}::test_a_remote_topic_that_only_was_written_before"
    ),
    "wire/test_crashes.py::test_a_frozen_copier_that_wakes_up_is_fenced_and_writes_nothing"
    "[far-version-1]": "the same near with version 1, and far with version 2",
    "wire/test_broken_connections.py::test_a_producer_that_is_lost_is_replaced_and_goes_on_from_"
    "the_last_commit[version-1]": "the same with version 2",
    "wire/test_long_intervals.py::test_a_transaction_is_ended_before_it_is_late_although_a_batch_"
    "still_waits[11-": "the same with version 13",
    "groups/test_upstream_cases.py::test_one_way_groups_follow_to_the_end_and_over_restarts_and_a_"
    "topic_that_joins[10]": "the same with 0",
    f"{_ANSWERS}[admin of the other cluster": f"{_ANSWERS}[editor of a flow, and the gate's tests",
    f"{_APPLICATION}::test_an_application_switches_over_and_back_and_nothing_is_lost_or_repeated"
    "[default names]": "the same with the same names",
    f"{_APPLICATION}::test_records_that_an_emergency_failover_left_are_listed_and_replayed_or_"
    "dropped[default names]": "the same with the same names",
    "spark/test_failback.py::test_with_the_same_names_both_sides_end_as_the_union": (
        "spark/test_failback.py::test_with_the_default_names_nothing_of_the_other_side_comes_back"
    ),
    "spark/test_full_slots.py::test_a_new_topic_is_copied_soon_under_load": (
        "spark/test_full_slots.py, the other tests"
    ),
    "spark/test_first_start.py::test_a_flow_that_another_installation_runs_is_left_to_it": (
        "spark/test_first_start.py::test_a_flow_is_not_started_while_another_program"
    ),
    "mirrors/test_truncated_runs.py::test_another_delivery_leaves_no_doubt_behind": (
        "mirrors/test_truncated_runs.py, the other tests"
    ),
    "monitoring/test_database_timeouts.py::test_a_held_lock_delays_a_page_no_longer": (
        "monitoring/test_database_timeouts.py, the other tests"
    ),
    f"{_REFUSED}[start.from-{{}}:0:9": f"{_REFUSED}[start.from-{{}}:0:31",
    f"{_REFUSED}[run.until-{{}}:0:31": f"{_REFUSED}[start.from-{{}}:0:31",
    f"{_REFUSED}[run.until-{{}}:0:9": f"{_REFUSED}[start.from-{{}}:0:31",
    f"{_REFUSED}[run.until-{{}}:1:9": f"{_REFUSED}[start.from-{{}}:0:31",
    f"{_REFUSED}[start.from-{{}}x": f"{_REFUSED}[start.from-{{}}:0:31",
    f"{_BINDS}[----link-": f"{_BINDS}[----source_window-source",
    f"{_BINDS}[----commit-": f"{_BINDS}[----target_window-target",
    f"{_DEAD}[refused]": f"{_DEAD}[silent]",
    f"{_DEAD}[unresolvable]": f"{_DEAD}[silent]",
    f"{_TERRAFORM}[no web address": f"{_TERRAFORM}[no address]",
    f"{_TERRAFORM}[no such file": f"{_TERRAFORM}[nothing answers]",
    f"{_TERRAFORM}[an unknown key": f"{_TERRAFORM}[a mistake in a rule]",
    f"{_TERRAFORM}[a flow without its cluster": f"{_TERRAFORM}[a password]",
    f"{_TERRAFORM}[a limit below zero": f"{_TERRAFORM}[an unknown word]",
    f"{_DEAD}[dropped]": f"{_DEAD}[silent]",
    f"{_DEAD}[not_kafka]": f"{_DEAD}[tls_broken]",
    f"{_COPIES}[record-MTLS-": f"{_COPIES}[record-TLS-]; the raw lane with each login",
    f"{_COPIES}[record-LOGIN": f"{_COPIES}[record-TLS-]; the raw lane with each login",
    f"{_LEVELS}[0-27]": f"{_LEVELS}[0-12], the same level; [1-27], the same Produce version",
    f"{_LEVELS}[1-12]": f"{_LEVELS}[1-27], the same level; [0-12], the same Produce version",
    "wire/test_crashes.py::test_killed_at_any_moment_nothing_is_lost_or_doubled[far-version-1]": (
        "the same near with version 1, and far with version 2"
    ),
    "wire/test_crashes.py::test_killed_at_any_moment_nothing_is_lost_or_doubled[near-version-2]": (
        "the same near with version 1, and far with version 2"
    ),
    "wire/test_distance.py::test_a_full_window_is_cut_and_every_record_arrives[at_least": (
        "the same exactly once"
    ),
    f"{_DISTANCE}_whatever_is_cut_or_killed[27]": "the same with seed 12",
    "wire/test_overlapping_fetches.py::test_chaos_at_a_distance_with_overlapping_fetches[27]": (
        "the same with seed 3"
    ),
    "wire/test_overlapping_fetches.py::test_chaos_at_a_distance_with_overlapping_fetches[12]": (
        "the same with seed 3"
    ),
    "wire/test_slow_links.py::test_a_backlog_crosses_a_slow_connection_to_the_source": (
        "wire/test_slow_links.py, the other tests"
    ),
    "kafka/test_dead_addresses.py::test_a_dead_broker_of_the_metadata_hides_no_groups_of_the_others"
    "[dropped]": "the same with silent",
}


def unmatched(names: Sequence[str]) -> list[str]:
    """Entries of whose file tests were collected, but none with this beginning."""
    files = {name.partition("::")[0] for name in names}
    return [
        entry
        for entry in LONG
        if entry.partition("::")[0] in files and not any(name.startswith(entry) for name in names)
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = [item.nodeid.removeprefix("tests/") for item in items]
    # A person who names single tests collects parts of files.
    whole = not any("::" in word for word in config.args)
    if whole and (wrong := unmatched(names)):
        raise pytest.UsageError(f"tests/long_runs.py names tests that do not exist: {wrong}")
    for item, name in zip(items, names, strict=True):
        if name.startswith(tuple(LONG)):
            item.add_marker("long")

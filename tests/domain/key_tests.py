"""Which test changes an MM2 key and observes the effect on a broker, for the page on MM2."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_KEYS = "tests/groups/test_keys_on_brokers.py::"
_NAMES = _KEYS + "test_which_remote_topics_are_made_and_under_which_names"
_SETTINGS = (
    _KEYS + "test_settings_of_remote_topics_leave_out_what_is_excluded_and_take_over_defaults_when"
    "_told_so"
)
_SCHEMAS = "tests/schemas/test_schema_sync.py::"
_TURNS = (
    _KEYS + "test_a_switch_says_whether_and_an_interval_how_often_the_brokers_are_brought_into_step"
)
_INTERNAL = (
    _KEYS + "test_internal_topics_use_the_separator_or_a_dot_and_as_many_copies_as_there_are"
    "_brokers"
)
_REFRESH = (
    "tests/spark/test_refresh.py::"
    "test_new_topics_are_looked_for_at_the_interval_and_never_when_switched_off"
)
_FILTERED = (
    "tests/groups/test_checkpoints.py::"
    "test_groups_are_chosen_by_their_filters_and_each_left_out_says_why"
)
_SYNCS = "tests/groups/test_offset_syncs.py::"
_PLACE = _SYNCS + "test_the_topic_is_where_the_setting_says_and_named_after_the_other_side"
_CLASSES = (
    "tests/wire/test_bandwidth.py::"
    "test_the_high_class_empties_first_under_a_limit_while_the_low_one_advances"
)
_BEATS = "tests/mirrors/test_heartbeats.py::"
_ACLS = "tests/security/test_acl_sync.py::"
_LOOK = _ACLS + "test_the_duty_waits_until_somebody_has_seen_which_rules_it_would_make"

PROOFS = {
    "topics": _NAMES,
    "topics.exclude": _NAMES,
    "config.properties.exclude": _SETTINGS,
    "use.defaults.from": _SETTINGS,
    "replication.policy.class": _NAMES,
    "replication.policy.separator": _NAMES,
    "replication.policy.internal.topic.separator.enabled": _INTERNAL,
    "replication.factor": _NAMES,
    "tasks.max": "tests/spark/test_copy.py::"
    "test_two_hundred_partitions_in_four_slices_arrive_whole",
    "refresh.topics.enabled": _REFRESH,
    "refresh.topics.interval.seconds": _REFRESH,
    "heartbeats.replication.enabled": _KEYS
    + "test_heartbeats_topics_are_copied_whatever_topics_says_unless_switched_off",
    "metric.names.formats": "tests/monitoring/test_mm2_names.py::"
    "test_a_flow_s_figures_have_the_names_that_it_asks_for",
    "groups": _FILTERED,
    "groups.exclude": _FILTERED,
    "refresh.groups.enabled": _TURNS,
    "refresh.groups.interval.seconds": _TURNS,
    "emit.checkpoints.enabled": _TURNS,
    "emit.checkpoints.interval.seconds": _TURNS,
    "checkpoints.topic.replication.factor": _INTERNAL,
    "sync.group.offsets.enabled": _TURNS,
    "sync.group.offsets.interval.seconds": _TURNS,
    "emit.offset-syncs.enabled": _KEYS + "test_without_offset_syncs_their_topic_is_not_made",
    "offset-syncs.topic.location": _PLACE,
    "offset-syncs.topic.replication.factor": _PLACE,
    "offset.lag.max": _SYNCS + "test_a_reader_of_the_syncs_is_never_led_ahead_and_gets_none_twice",
    "emit.heartbeats.enabled": _BEATS + "test_a_stopped_flow_and_one_without_heartbeats_write_none",
    "emit.heartbeats.interval.seconds": _BEATS
    + "test_an_interval_shorter_than_celery_beats_requeues_the_task_until_the_next_beat",
    "heartbeats.topic.replication.factor": _BEATS
    + "test_a_turn_writes_one_heartbeat_in_mm2s_bytes_on_the_source",
    "sync.topic.configs.enabled": _TURNS,
    "sync.topic.configs.interval.seconds": _TURNS,
    "sync.topic.acls.enabled": _LOOK,
    "sync.topic.acls.interval.seconds": _LOOK,
    "sync.acls.scope": _ACLS
    + "test_complete_rules_carry_prefixes_groups_and_deny_and_take_away_their_own_alone",
    "drift.grace.seconds": "tests/mirrors/test_drift.py::"
    "test_without_grace_a_change_by_hand_is_put_back_at_the_next_turn_as_mm2_does",
    "sync.schemas.enabled": _SCHEMAS
    + "test_all_types_versions_references_and_levels_arrive_and_the_second_run_is_empty",
    "sync.schemas.interval.seconds": _TURNS,
    "sync.schemas.subjects": "tests/domain/test_schema_plan.py::"
    "test_a_schema_comes_after_those_that_it_refers_to",
    "sync.schemas.subjects.exclude": "tests/domain/test_schema_plan.py::"
    "test_excluded_subjects_are_left_alone",
    "sync.schemas.subject.format": _SCHEMAS
    + "test_subjects_have_a_prefix_on_the_target_and_references_follow",
    "sync.schemas.ids": "tests/domain/test_schema_plan.py::"
    "test_ids_are_kept_where_the_target_has_an_import_mode",
    "sync.schemas.missing": "tests/wire/test_evaluated_batches.py::"
    "test_a_record_waits_for_a_schema_that_the_target_does_not_have",
    "delivery": "tests/spark/test_copy.py::test_at_least_once_copies_without_transactions",
    "commit.interval.ms": "tests/wire/test_crashes.py::"
    "test_at_least_once_loses_nothing_and_repeats_little",
    "start.from": "tests/spark/test_positions.py::test_a_flow_begins_where_it_was_told_to",
    "bandwidth.limit.bytes": "tests/wire/test_bandwidth.py::"
    "test_a_flow_reads_no_faster_than_its_limit",
    "fetch.overlap.bytes": "tests/wire/test_overlapping_fetches.py::"
    "test_the_budget_limits_what_is_repeated",
    "topics.priority.high": _CLASSES,
    "topics.priority.low": _CLASSES,
    "topic.rename": "tests/spark/test_renamed_topics.py::"
    "test_both_sides_of_a_renamed_topic_end_as_the_union_minus_what_was_dropped",
    "skip.replicated": "tests/wire/test_active_active.py::"
    "test_both_sides_end_as_the_union_and_nothing_goes_round",
    "run.until": "tests/spark/test_bounded_bandwidth.py::"
    "test_a_run_stops_at_the_end_offsets_and_the_next_run_continues",
    "run.schedule": "tests/mirrors/test_bounded_runs.py::test_the_schedule_begins_the_next_run",
    "run.schedule.zone": "tests/domain/test_windows.py::"
    "test_a_schedule_is_read_by_the_clocks_of_its_zone",
    "compare.schedule": "tests/mirrors/test_scheduled_comparisons.py::"
    "test_a_comparison_continues_where_the_last_one_ended",
    "compare.schedule.zone": "tests/mirrors/test_scheduled_comparisons.py::"
    "test_a_schedule_is_read_by_the_clocks_of_its_zone_and_taken_once",
    "runner.pinned": "tests/mirrors/test_runner_pools.py::"
    "test_pinned_paused_and_unknown_flows_do_not_move",
    "run.window.minutes": "tests/spark/test_between_offsets.py::"
    "test_a_run_commits_when_its_window_closes_and_the_next_run_continues_there",
}
# What is refused never reaches a broker: each by name, and whole families.
REFUSED = "tests/domain/test_specs.py::test_no_refused_key_is_ever_taken"
FAMILIES = "tests/domain/test_specs.py::test_whole_families_are_refused_with_their_reason"
CLIENTS = "tests/wire/test_client_settings.py::test_one_small_request_at_a_time_copies_the_same"


def is_there(proof: str) -> bool:
    """Whether the test that is named exists."""
    path, _, name = proof.partition("::")
    return name in _tests(path)


@functools.cache
def _tests(path: str) -> frozenset[str]:
    source = ROOT / path
    if not source.is_file():
        return frozenset()
    tree = ast.parse(source.read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))

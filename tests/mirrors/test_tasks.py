"""Names of Celery tasks: queued messages of other versions carry them, so none may change."""

from __future__ import annotations

from fnmatch import fnmatch

from controlplane.celery import BEAT, app

PREFIX = "mirrors.tasks."
NAMES = {
    "apply_plan",
    "apply_positions",
    "balance_pools",
    "beat_hearts",
    "bring_groups_back",
    "check_cluster",
    "check_clusters",
    "check_takeover",
    "compare_schemas",
    "count_loss",
    "evaluate_rules",
    "find_conflicts",
    "fix_drift",
    "lift_fence",
    "look_at_plan",
    "preview_positions",
    "preview_rules",
    "preview_topics",
    "prune",
    "read_topic_configs",
    "reconcile",
    "reconcile_flow",
    "reconcile_host",
    "refresh_runs",
    "refresh_runs_of",
    "retire_blocks_of",
    "retire_notes_of",
    "retire_runs",
    "retire_runs_of",
    "run_comparison",
    "run_drills",
    "run_due_duties",
    "run_duty",
    "run_failback",
    "run_failover",
    "run_test",
    "seal_audit",
    "settle_orphans",
    "show_sign",
    "sweep_comparisons",
    "sweep_failbacks",
    "sweep_failovers",
    "sweep_tests",
}


def registered() -> set[str]:
    app.loader.import_default_modules()
    return {name for name in app.tasks if not name.startswith("celery.")}


def test_tasks_have_the_names_that_messages_on_their_way_carry() -> None:
    ours = {name for name in registered() if name.startswith("mirrors.")}
    assert ours == {PREFIX + name for name in NAMES}


def test_the_clock_and_the_routes_name_tasks_that_are_there() -> None:
    there = registered()
    assert {row["task"] for row in BEAT.values()} <= there
    for pattern in app.conf.task_routes:
        assert any(fnmatch(name, pattern) for name in there), pattern

"""Celery's ways in: an id comes in, a service is called. Each may run twice or never.

A task's name is what messages carry, so it stays whatever file the task lies in.
"""

from __future__ import annotations

from mirrors.tasks.checks import check_takeover, run_comparison, sweep_comparisons
from mirrors.tasks.clusters import check_cluster, check_clusters, run_test, sweep_tests
from mirrors.tasks.failbacks import bring_groups_back, run_failback, settle_orphans, sweep_failbacks
from mirrors.tasks.failovers import (
    count_loss,
    lift_fence,
    run_drills,
    run_failover,
    sweep_failovers,
)
from mirrors.tasks.supervision import reconcile, reconcile_flow, reconcile_host, show_sign
from mirrors.tasks.upkeep import (
    apply_plan,
    beat_hearts,
    fix_drift,
    look_at_plan,
    prune,
    refresh_runs,
    refresh_runs_of,
    retire_blocks_of,
    retire_notes_of,
    retire_runs,
    retire_runs_of,
    run_due_duties,
    run_duty,
)

__all__ = [
    "apply_plan",
    "beat_hearts",
    "bring_groups_back",
    "check_cluster",
    "check_clusters",
    "check_takeover",
    "count_loss",
    "fix_drift",
    "lift_fence",
    "look_at_plan",
    "prune",
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
    "settle_orphans",
    "show_sign",
    "sweep_comparisons",
    "sweep_failbacks",
    "sweep_failovers",
    "sweep_tests",
]

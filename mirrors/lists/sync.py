"""Lists of what a flow does beside its records: sync tasks and heartbeats."""

from __future__ import annotations

from mirrors.lists.columns import Column, ListSpec, in_files, in_rest

SYNC_TASKS = ListSpec(
    "sync tasks",
    rows="standings",
    columns=(
        Column("schedule.name", "Sync task", field="duty"),
        Column("state", "State"),
        Column("last.started_at", "Last run", field=None),
        Column("next_at", "Next"),
        Column("interval_seconds", "Every", number=True),
        Column("last.counts", "Did", field=None),
        *in_files("last.error"),
        Column("judgement.reason", "Reason", field="reason"),
        *in_rest("does", "enabled", "last"),
    ),
)
HEARTBEATS = ListSpec(
    "heartbeats",
    rows="directions",
    columns=(
        Column("flow.name", "Direction", field=None),
        Column("state", "State", field=None),
        Column("age_ms", "Newest", number=True, field=None),
        Column("every", "Every", number=True, field=None),
        Column(
            "heartbeat.latency_ms",
            "End to end",
            number=True,
            title="From being written to being readable on the target",
            field="latency_ms",
        ),
        Column(
            "heartbeat.clock_skew_ms",
            "Clock ahead",
            number=True,
            title="The writer's clock is ahead of this one by at least this much",
            field="clock_skew_ms",
        ),
        Column("place", "Written on"),
        Column("heartbeat.written_at", "Written", field="written_at"),
        Column("heartbeat.as_of", "As of", field="as_of"),
        Column("heartbeat.error", "Reason", field="error"),
        *in_rest("reason", "seen_at"),
    ),
)

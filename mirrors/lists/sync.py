"""Lists of what a flow does beside its records: sync tasks, heartbeats, schemas."""

from __future__ import annotations

from mirrors.domain.schemas.plan import STATES
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
SUBJECTS = ListSpec(
    "schema subjects",
    columns=(
        Column("subject", "Subject", ("subject",)),
        Column("target_subject", "On the target", ("target_subject",)),
        Column("state", "State", ("state", "subject")),
        Column("versions", "Versions", ("versions",), number=True),
        Column(
            "present",
            "On both",
            ("present",),
            number=True,
            title="Versions of the source that the target's registry has",
        ),
        Column(
            "other_ids",
            "Other ids",
            ("other_ids",),
            number=True,
            title="Versions that have another id on the target",
        ),
        Column("reason", "Reason"),
    ),
    search=("subject", "target_subject", "reason"),
    default="subject",
    filters={"state": STATES},
)
SCHEMA_IDS = ListSpec(
    "schema ids",
    columns=(
        Column("subject", "Subject", ("subject", "version")),
        Column("version", "Version", ("version", "subject"), number=True),
        Column("source_id", "Id on the source", ("source_id",), number=True),
        Column("target_subject", "Subject on the target", ("target_subject", "target_version")),
        Column("target_version", "Version on the target", ("target_version",), number=True),
        Column("target_id", "Id on the target", ("target_id",), number=True),
        Column("kind", "Type", ("kind", "subject")),
        *in_rest("read_at"),
    ),
    search=("subject", "target_subject"),
    default="subject",
)

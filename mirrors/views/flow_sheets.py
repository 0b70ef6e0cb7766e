"""The tables of a flow's page that are files of their own making, by part."""

from __future__ import annotations

from mirrors.views.lanes import LANES
from mirrors.views.sheets import Sheet

LOG = Sheet("log_entries", ("when", "level", "text"))
SHEETS = {
    "partitions": {"lanes": LANES},
    "heartbeats": {
        "heartbeats": Sheet(
            "directions",
            (
                "flow.name",
                "state",
                "age_ms",
                "every",
                "heartbeat.latency_ms",
                "heartbeat.clock_skew_ms",
                "place",
                "heartbeat.written_at",
                "heartbeat.as_of",
                "heartbeat.error",
            ),
        ),
    },
    "duties": {
        "duties": Sheet(
            "standings",
            (
                "schedule.name",
                "state",
                "last.started_at",
                "next_at",
                "interval_seconds",
                "last.counts",
                "last.error",
                "judgement.reason",
            ),
        ),
    },
    "plan": {"plan": Sheet("plan.changes", ("kind", "name", "before", "after", "reason"))},
    "configuration": {
        "settings": Sheet("settings", ("key", "value", "given", "meaning")),
        "changes": Sheet("changes", ("when", "key", "before", "after", "who", "generation")),
    },
    "readiness": {
        "readiness": Sheet(
            "lines", ("term.title", "term.points", "term.most", "term.sentence", "label", "link")
        ),
        "drills": Sheet(
            "drills",
            (
                "pk",
                "state",
                "created_at",
                "measured.rpo_ms",
                "measured.loss",
                "measured.rto_ms",
                "reason",
            ),
        ),
    },
    "jobs": {"log": LOG},
}
EXPLAINED = Sheet("verdict.rules", ("rule", "passed", "reason"))

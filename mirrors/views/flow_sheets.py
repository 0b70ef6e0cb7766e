"""The tables of a flow's page that are files of their own making."""

from __future__ import annotations

from mirrors.views.sheets import Sheet

SHEETS = {
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
    "plan": Sheet("plan.changes", ("kind", "name", "before", "after", "reason")),
    "configuration": Sheet("settings", ("key", "value", "given", "meaning")),
}

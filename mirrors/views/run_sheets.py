"""The tables of failovers, ways back and comparisons as files."""

from __future__ import annotations

from typing import Any

from mirrors.views.sheets import Sheet

_STEPS = (
    "number",
    "name",
    "does",
    "state",
    "attempt",
    "started_at",
    "ended_at",
    "reason",
    "undo_reason",
)
SIMULATION = {
    "steps": Sheet("steps", _STEPS),
    "findings": Sheet("found", ("weight", "code", "where", "sentence", "page")),
    "lossy": Sheet(
        "lossy",
        ("topic", "partition", "position", "source_end", "source_end_age_ms", "loss", "reason"),
    ),
    "clients": Sheet("plan.clients", ("group", "bootstrap", "topics", "pattern", "sentence")),
}
EXECUTION = {
    "steps": Sheet("rows", _STEPS),
    "places": Sheet(
        "places",
        (
            "group",
            "topic",
            "remote_topic",
            "partition",
            "source_offset",
            "downstream_offset",
            "state",
            "reason",
        ),
    ),
}
FAILBACK = {
    "orphans": Sheet(
        "orphans",
        (
            "topic",
            "partition",
            "remote_topic",
            "state",
            "records",
            "bytes",
            "first",
            "end",
            "gone",
            "reason",
            "decision",
            "decided_by",
            "decided_why",
        ),
    ),
    "groups": Sheet(
        "groups",
        ("group", "topic", "partition", "offset", "to_topic", "to_offset", "state", "reason"),
    ),
    "switches": Sheet("switches", ("pk", "kind", "state", "created_at", "reason")),
    "starts": Sheet("starts", ("topic", "partition", "kind", "offset", "reason")),
}
FAILBACKS = {
    "points": Sheet(
        "points",
        ("topic", "partition", "position", "remote_topic", "downstream", "how", "kept_at"),
    ),
    "runs": Sheet("runs", ("pk", "created_at", "state", "requested_by", "reason")),
}
COMPARISON = {"aspects": Sheet("aspects", ("about", "compared", "differs", "left_out"))}


def findings_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """What is in the way of a real failover, then what to know."""
    return [
        {**row, "weight": weight}
        for weight, name in (("in the way", "blockers"), ("to know", "warnings"))
        for row in plan.get(name, [])
    ]

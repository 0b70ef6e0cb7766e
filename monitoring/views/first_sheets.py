"""The tables of the first screen as files."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mirrors.views.sheets import CHANGES, Sheet

SHEETS = {
    "flows": Sheet(
        "flows",
        (
            "label",
            "shown_state",
            "offset_lag",
            "time_lag_ms",
            "rpo_seconds",
            "bytes_per_second",
            "ready",
            "proof.state",
            "proof.at",
            "since",
            "as_of",
            "reason",
        ),
    ),
    "topics": Sheet("worst", ("flow.name", "topic", "time_lag_ms", "offset_lag", "as_of")),
    "groups": Sheet("groups", ("flow.name", "group", "topic", "time_lag_ms", "offset_lag")),
    "whose": Sheet("whose", ("what", "name", "state", "seen_at", "reason")),
    "curve": Sheet("curve.minutes", ("at", "rpo_ms")),
    "changes": CHANGES,
}


def us_or_them(context: dict[str, Any]) -> dict[str, Any]:
    """Clusters, heartbeats, runners and our own processes as rows of one kind."""
    parts: list[tuple[str, str, str, datetime | None, str]] = [
        ("cluster", one.alias, one.seen, one.checked_at, one.reason) for one in context["clusters"]
    ]
    for beat in context["beats"]:
        heart = beat["heartbeat"]
        parts.append(("heartbeat", beat["flow"].label, beat["state"], heart.seen_at, heart.error))
    parts += [
        ("runner", one.name, one.health_now.state, one.seen_at, one.health_now.reason)
        for one in context["runners"]
    ]
    parts += [
        ("process", one["label"], one["state"], one["seen_at"], "") for one in context["engine"]
    ]
    parts.append(("process", "Database", "running", context["now"], ""))
    columns = SHEETS["whose"].columns
    return {"whose": [dict(zip(columns, part, strict=True)) for part in parts]}

"""The heartbeats tab: when they are written and arrive, in both directions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Q
from django.utils import timezone

from mirrors.domain.settings.table import KEYS
from mirrors.models import Flow, HeartbeatState
from mirrors.services.heartbeats.emitter import WATCH_EVERY

_EVERY, _ON = "emit.heartbeats.interval.seconds", "emit.heartbeats.enabled"
# After this number of intervals without a heartbeat, a direction is unverified.
_LATE = 3


def directions(flow: Flow) -> dict[str, Any]:
    """This flow first, then the flow in the other direction, if any."""
    now = timezone.now()
    ends = Q(pk=flow.pk) | Q(source=flow.target, target=flow.source)
    flows = Flow.objects.filter(ends).select_related("source", "target", "heartbeat")
    ordered = sorted(flows, key=lambda row: row.pk != flow.pk)
    return {"directions": [direction(row, now) for row in ordered], "has_back": len(ordered) > 1}


def direction(flow: Flow, now: datetime) -> dict[str, Any]:
    """The row of a flow whose `heartbeat` is loaded."""
    row: HeartbeatState = getattr(flow, "heartbeat", None) or HeartbeatState(flow=flow)
    every = int(flow.properties.get(_EVERY, KEYS[_EVERY].default or 1))
    is_on = flow.properties.get(_ON, "true").strip().lower() == "true"
    age = None
    if row.seen_at is not None:
        age = max(0, round((now - row.seen_at).total_seconds() * 1000))
    return {
        "flow": flow,
        "heartbeat": row,
        "age_ms": age,
        "every": every,
        "state": _word(flow, age, every) if is_on else "off",
        "place": (flow.target if row.place == "target" else flow.source).alias,
    }


def _word(flow: Flow, age_ms: int | None, every: int) -> str:
    if flow.desired_state != "running":
        return "resting"
    if age_ms is None:
        return "unknown"
    patience_s = max(_LATE * every, 10) + WATCH_EVERY.total_seconds()
    return "good" if age_ms <= patience_s * 1000 else "lagging"

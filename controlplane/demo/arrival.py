"""When the demo's flows have started: they run, or a flow of an earlier demo is where it was left.

A demo keeps its data. A flow that was paused, stopped, failed over, or degraded by something that
waits for a person's decision is that again after a restart, and the demo is up all the same. A flow
that this start created has no such past: it must run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

# A flow that starts may be in trouble for a moment, so the state must last this long.
SETTLED_S = 15.0
_TROUBLE = frozenset({"degraded", "backing_off", "failed"})

Row = Mapping[str, Any]


@dataclasses.dataclass
class Arrival:
    """Which flows are still to be waited for; `kept` are ids of flows of an earlier demo.

    `began_ms`: before it, what the rows say is from before this start. A flow that is degraded or
    runs counts once the runner has reported since then.
    """

    kept: frozenset[int]
    began_ms: float
    _in_trouble: dict[int, tuple[str, float]] = dataclasses.field(default_factory=dict)

    def waiting(self, flows: Iterable[Row], now_s: float) -> list[str]:
        """A sentence for each flow that has not arrived; ask again until there is none."""
        return [describe(flow) for flow in flows if not self._has_arrived(flow, now_s)]

    def _has_arrived(self, flow: Row, now_s: float) -> bool:
        if flow["desired_state"] != "running":
            return True
        is_kept = flow["id"] in self.kept
        state = flow["observed_state"]
        is_fresh = milliseconds(flow["as_of"]) >= self.began_ms
        if state == "running":
            return is_fresh or not is_kept
        if not is_kept or state not in _TROUBLE or (state == "degraded" and not is_fresh):
            self._in_trouble.pop(flow["id"], None)
            return False
        before, since = self._in_trouble.get(flow["id"], (state, now_s))
        if before != state:
            since = now_s
        self._in_trouble[flow["id"]] = state, since
        return now_s - since >= SETTLED_S


def not_running(flows: Iterable[Row]) -> list[str]:
    """What is said of each flow that does not copy, or not all that it should."""
    return [describe(flow) for flow in flows if not runs(flow)]


def runs(flow: Row) -> bool:
    return bool(flow["desired_state"] == "running" and flow["observed_state"] == "running")


def describe(flow: Row) -> str:
    return f"{flow['name']} is {flow['observed_state']} ({flow['reason'] or 'no reason yet'})"


def milliseconds(moment: str | None) -> float:
    return datetime.fromisoformat(moment).timestamp() * 1000 if moment else 0.0

"""Schedule of heartbeats: which flows are due, and each slot taken once in the database."""

from __future__ import annotations

import contextlib
import dataclasses
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.internal_topics.records import Heartbeat
from mirrors.domain.specs import FlowSpec
from mirrors.domain.sync.heartbeats import (
    ReceivedHeartbeat,
    missed_slots,
    remote_heartbeats_topic,
)
from mirrors.models import Cluster, Flow, HeartbeatState
from mirrors.models.flows import DesiredState
from mirrors.services.clock import milliseconds
from mirrors.services.heartbeats.connections import OPEN

# While heartbeats are written on the target, the source is tried again at this interval.
SOURCE_AGAIN = timedelta(minutes=10)


@dataclasses.dataclass
class HeartbeatEmission:
    """One heartbeat of one flow, from being due to its arrival."""

    flow: Flow
    spec: FlowSpec
    state: HeartbeatState
    beat: Heartbeat
    slot: int
    error: str = ""
    refusal: str = ""  # why the source rejected it
    unread: str = ""  # why arrivals on the target are unknown
    arrivals: list[ReceivedHeartbeat] = dataclasses.field(default_factory=list)

    @property
    def place(self) -> Cluster:
        return self.flow.source if self.state.place == "source" else self.flow.target

    @property
    def topic(self) -> str | None:
        """The topic where it arrives; None when an arrival would prove nothing."""
        return remote_heartbeats_topic(self.spec) if self.state.place == "source" else None

    def has_arrived(self) -> bool:
        wanted = (self.beat.key, self.beat.value)
        return any((arrival.key, arrival.value) == wanted for arrival in self.arrivals)


def flows_with_heartbeats() -> list[tuple[Flow, FlowSpec]]:
    """Running flows with heartbeats enabled."""
    rows = Flow.objects.select_related("source", "target", "heartbeat")
    found = []
    for flow in rows.filter(desired_state=DesiredState.RUNNING):
        with contextlib.suppress(InvalidSettings):
            spec = flow.spec
            if spec.settings.emit_heartbeats_enabled:
                found.append((flow, spec))
    return found


def interval_s(spec: FlowSpec) -> int:
    return spec.settings.emit_heartbeats_interval_seconds


def claim_due(flows: list[tuple[Flow, FlowSpec]], now: datetime) -> list[HeartbeatEmission]:
    due = [turn for flow, spec in flows if (turn := _turn(flow, spec, now)) is not None]
    if not due:
        return []
    with transaction.atomic():
        return [turn for turn in due if _take(turn)]


def _turn(flow: Flow, spec: FlowSpec, now: datetime) -> HeartbeatEmission | None:
    state = getattr(flow, "heartbeat", None) or HeartbeatState(flow=flow)
    at = milliseconds(now)
    seconds = at // 1000
    slot = seconds - seconds % interval_s(spec)
    if state.slot >= slot:
        return None
    if state.place == "target" and _is_source_due(flow, state, now):
        state.place = "source"
    beat = Heartbeat(flow.source.alias, flow.target.alias, at)
    turn = HeartbeatEmission(flow, spec, state, beat, slot)
    if turn.place.reachable is False or OPEN.is_paused(turn.place):
        return None
    return turn


def _is_source_due(flow: Flow, state: HeartbeatState, now: datetime) -> bool:
    """At each slot while the target fails as well, otherwise rarely."""
    if flow.source.reachable is False or OPEN.is_paused(flow.source):
        return False
    return bool(state.error) or now - (state.place_since or now) > SOURCE_AGAIN


def _take(turn: HeartbeatEmission) -> bool:
    """Whether this process moved the slot, so that it owns the heartbeat."""
    if turn.state.pk is None:
        turn.state, _ = HeartbeatState.objects.get_or_create(flow=turn.flow)
    missed = missed_slots(
        turn.state.slot,
        turn.slot,
        every_s=interval_s(turn.spec),
        running_since=milliseconds(turn.flow.since) // 1000,
    )
    rows = HeartbeatState.objects.filter(pk=turn.state.pk, slot__lt=turn.slot)
    if rows.update(slot=turn.slot, missed=F("missed") + missed) != 1:
        return False
    turn.state.missed += missed
    return True

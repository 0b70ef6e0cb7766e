"""Heartbeats of all flows: each turn taken once, written in one go, and watched as they arrive.

(a) A turn is taken in the database before anything is written: two beats write no heartbeat twice.
(b) A producer and a watcher per cluster are kept in the process; what failed is opened anew.
(c) Figures are rows of the last look; the age on a page is counted from the newest heartbeat.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from mirrors.domain.duties import Outcome
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.heartbeats import Arrival, carried_as, figures
from mirrors.domain.records import Heartbeat
from mirrors.domain.specs import FlowSpec
from mirrors.kafka.heartbeats import Watcher
from mirrors.models import Cluster, Flow, HeartbeatState
from mirrors.models.flows import DesiredState
from mirrors.services.clock import milliseconds, moment
from mirrors.services.duty_runs import close_run, open_run
from mirrors.services.flows import spec_of
from mirrors.services.heart_connections import OPEN

NAME = "heartbeats"
WRITE_S = 2.0
# So often, and for so long, arrivals are watched: long enough for a commit, short for a worker.
WATCH_EVERY = timedelta(seconds=15)
WATCH_S = 2.5
# Where the source was closed to us, it is tried again after so long.
SOURCE_AGAIN = timedelta(minutes=10)


@dataclasses.dataclass
class Turn:
    """One heartbeat of one flow, from being due to having been seen."""

    flow: Flow
    spec: FlowSpec
    state: HeartbeatState
    beat: Heartbeat
    slot: int
    error: str = ""
    arrivals: list[Arrival] = dataclasses.field(default_factory=list)

    @property
    def place(self) -> Cluster:
        return self.flow.source if self.state.place == "source" else self.flow.target

    @property
    def topic(self) -> str | None:
        """Where it will arrive; None when nothing can be told from an arrival."""
        return carried_as(self.spec) if self.state.place == "source" else None

    def has_arrived(self) -> bool:
        wanted = (self.beat.key, self.beat.value)
        return any((arrival.key, arrival.value) == wanted for arrival in self.arrivals)


@dataclasses.dataclass(frozen=True)
class Beat:
    """How many flows were due, and after how many seconds one of them may be due again."""

    due: int
    again_s: float | None


def beat(*, now: datetime) -> Beat:
    """Write what is due, of all flows at once; now and then watch it arrive."""
    flows = _emitting()
    turns = _take_turns(flows, now)
    watched = [turn for turn in turns if _is_watched(turn, now)]
    watchers = _begin(watched)
    before = {turn.flow.pk: (turn.state.place, turn.state.error) for turn in turns}
    _write(turns, now)
    _watch(watchers, watched)
    for turn in turns:
        if turn in watched:
            _keep_figures(turn, now)
        elif before[turn.flow.pk] != (turn.state.place, turn.error):
            _keep(turn, now)
    seconds = timezone.now().timestamp()
    waits = [every - seconds % every for every in {_interval(spec) for _, spec in flows}]
    return Beat(due=len(turns), again_s=min(waits, default=None))


def _emitting() -> list[tuple[Flow, FlowSpec]]:
    """Flows that run and ask for heartbeats."""
    rows = Flow.objects.select_related("source", "target", "heartbeat")
    found = []
    for flow in rows.filter(desired_state=DesiredState.RUNNING):
        with contextlib.suppress(InvalidSettings):
            spec = spec_of(flow)
            if spec.settings.emit_heartbeats_enabled:
                found.append((flow, spec))
    return found


def _interval(spec: FlowSpec) -> int:
    return spec.settings.emit_heartbeats_interval_seconds


def _take_turns(flows: list[tuple[Flow, FlowSpec]], now: datetime) -> list[Turn]:
    due = [turn for flow, spec in flows if (turn := _turn(flow, spec, now)) is not None]
    if not due:
        return []
    with transaction.atomic():
        return [turn for turn in due if _take(turn)]


def _turn(flow: Flow, spec: FlowSpec, now: datetime) -> Turn | None:
    state = getattr(flow, "heartbeat", None) or HeartbeatState(flow=flow)
    at = milliseconds(now)
    seconds = at // 1000
    slot = seconds - seconds % _interval(spec)
    if state.slot >= slot:
        return None
    if state.place == "target" and now - (state.place_since or now) > SOURCE_AGAIN:
        state.place = "source"
    beat = Heartbeat(flow.source.alias, flow.target.alias, at)
    turn = Turn(flow, spec, state, beat, slot)
    if turn.place.reachable is False or OPEN.is_paused(turn.place):
        return None
    return turn


def _take(turn: Turn) -> bool:
    """The turn is ours when nobody moved the slot before us."""
    if turn.state.pk is None:
        turn.state, _ = HeartbeatState.objects.get_or_create(flow=turn.flow)
    rows = HeartbeatState.objects.filter(pk=turn.state.pk, slot__lt=turn.slot)
    return rows.update(slot=turn.slot) == 1


def _is_watched(turn: Turn, now: datetime) -> bool:
    as_of = turn.state.as_of
    return as_of is None or now - as_of >= WATCH_EVERY


def _write(turns: list[Turn], now: datetime) -> None:
    for place in {turn.place.pk: turn.place for turn in turns}.values():
        here = [turn for turn in turns if turn.place.pk == place.pk]
        factor = max(turn.spec.settings.heartbeats_topic_replication_factor for turn in here)
        try:
            writer = OPEN.writer(place, factor)
            failed = writer.write((turn.beat for turn in here), deadline_s=WRITE_S)
        except UnderstudyError as error:
            failed = {(turn.beat.source, turn.beat.target): error for turn in here}
        for turn in here:
            _judge(turn, failed.get((turn.beat.source, turn.beat.target)), now)
        if failed:
            OPEN.drop(place, pause=any(e.code != "not_authorised" for e in failed.values()))


def _judge(turn: Turn, error: UnderstudyError | None, now: datetime) -> None:
    """Where we may not write on the source, the target takes them from the next turn on."""
    state = turn.state
    turn.error = error.message if error else ""
    if error is None:
        state.written_at = now
        if state.place == "source":
            state.reason, state.place_since = "", None
    elif error.code == "not_authorised" and state.place == "source":
        alias = turn.flow.target.alias
        turn.error = ""
        state.place, state.place_since = "target", now
        state.reason = (
            f"{error.message} So they are written on {alias}, as MirrorMaker 2 does: they prove "
            f"that {alias} can be written, not that records come through."
        )


def _begin(turns: list[Turn]) -> list[Watcher]:
    watchers = []
    for target in {turn.flow.target.pk: turn.flow.target for turn in turns}.values():
        topics = {
            topic
            for turn in turns
            if turn.flow.target.pk == target.pk and (topic := turn.topic) is not None
        }
        if not topics or target.reachable is False or OPEN.is_paused(target):
            continue
        try:
            watcher = OPEN.watcher(target)
        except UnderstudyError:
            continue  # the look at the cluster says why; here nothing arrives
        watcher.begin(topics)
        watchers.append(watcher)
    return watchers


def _watch(watchers: list[Watcher], turns: list[Turn]) -> None:
    """Until all have arrived that were written just now, or the time is up."""
    waiting = [turn for turn in turns if turn.topic is not None and not turn.error]
    until = time.monotonic() + WATCH_S
    while watchers and waiting and time.monotonic() < until:
        for watcher in watchers:
            found = watcher.arrival(wait_s=0.1 / len(watchers))
            if found is not None:
                _note(turns, *found)
        waiting = [turn for turn in waiting if not turn.has_arrived()]
    for watcher in watchers:
        watcher.rest()


def _note(turns: Iterable[Turn], topic: str, key: bytes | None, value: bytes | None) -> None:
    arrival = Arrival(key, value, milliseconds(timezone.now()))
    for turn in turns:
        if turn.topic == topic:
            turn.arrivals.append(arrival)


def _keep_figures(turn: Turn, now: datetime) -> None:
    seen = figures(
        turn.arrivals,
        source=turn.beat.source,
        target=turn.beat.target,
        fresh=turn.beat.timestamp,
    )
    state = turn.state
    if seen.seen_at is not None:
        state.seen_at = moment(seen.seen_at)
    state.latency_ms, state.clock_skew_ms = seen.latency_ms, seen.clock_skew_ms
    state.as_of = now
    _keep(turn, now)
    run = open_run(flow_id=turn.flow.pk, name=NAME, slot=turn.slot, now=now)
    if run is not None:
        counts = {"watched": 1, "arrived": int(turn.has_arrived())}
        outcome = Outcome(counts=counts, reasons=tuple(_reasons(turn)))
        close_run(run=run, outcome=outcome, error=turn.error, fold=True)


def _reasons(turn: Turn) -> Iterator[str]:
    if turn.state.reason:
        yield turn.state.reason
    elif turn.topic is None:
        yield (
            "This flow does not carry heartbeats topics, so none arrives: "
            "heartbeats.replication.enabled is false and topics does not name them."
        )
    elif not turn.error and not turn.has_arrived():
        yield f"The newest had not arrived after {WATCH_S} s; the next look tells more."


def _keep(turn: Turn, now: datetime) -> None:
    turn.state.error = turn.error
    turn.state.save(
        update_fields=[
            "place",
            "place_since",
            "reason",
            "error",
            "written_at",
            "seen_at",
            "latency_ms",
            "clock_skew_ms",
            "as_of",
        ]
    )

"""Emits the heartbeats of all flows: each slot once, in one batch, and watches their arrival.

- A slot is taken in the database before the write: two schedulers write no heartbeat twice.
- The process keeps a producer and a watcher per cluster; a failed one is opened again.
- Rows have the figures of the last look; a page counts the age from the newest heartbeat.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.utils import timezone

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.sync.heartbeats import figures, late_sentence, newest_time
from mirrors.domain.sync.schedule import Outcome
from mirrors.services.clock import moment
from mirrors.services.heartbeats import arrivals
from mirrors.services.heartbeats.connections import OPEN
from mirrors.services.heartbeats.schedule import (
    HeartbeatEmission,
    claim_due,
    flows_with_heartbeats,
    interval_s,
)
from mirrors.services.sync.runs import close_run, open_run

NAME = "heartbeats"
WRITE_S = 2.0
# Interval at which arrivals are watched.
WATCH_EVERY = timedelta(seconds=15)


@dataclasses.dataclass(frozen=True)
class EmissionResult:
    """How many flows were due, and the seconds until the next one may be due."""

    due: int
    again_s: float | None


def emit_heartbeats(*, now: datetime) -> EmissionResult:
    """Write the due heartbeats of all flows, and from time to time watch their arrival."""
    flows = flows_with_heartbeats()
    turns = claim_due(flows, now)
    watched = [turn for turn in turns if _is_watched(turn, now)]
    watchers = arrivals.open_watchers(watched)
    before = {turn.flow.pk: (turn.state.place, turn.state.error) for turn in turns}
    _write(turns, now)
    arrivals.await_arrivals(watchers, watched)
    for turn in turns:
        if turn in watched:
            _keep_figures(turn, now)
        elif before[turn.flow.pk] != (turn.state.place, turn.error):
            _keep(turn, now)
    seconds = timezone.now().timestamp()
    waits = [every - seconds % every for every in {interval_s(spec) for _, spec in flows}]
    return EmissionResult(due=len(turns), again_s=min(waits, default=None))


def _is_watched(turn: HeartbeatEmission, now: datetime) -> bool:
    as_of = turn.state.as_of
    return as_of is None or now - as_of >= WATCH_EVERY


def _write(turns: list[HeartbeatEmission], now: datetime) -> None:
    """Write each to its cluster; what the source rejects goes to the target at once."""
    on_source = [turn for turn in turns if turn.state.place == "source"]
    _write_in_place(turns, now)
    refused = [turn for turn in on_source if turn.state.place == "target"]
    open_now = [turn for turn in refused if not OPEN.is_paused(turn.flow.target)]
    _write_in_place(open_now, now)
    for turn in open_now:
        if turn.error:
            turn.state.reason = turn.refusal


def _write_in_place(turns: list[HeartbeatEmission], now: datetime) -> None:
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


def _judge(turn: HeartbeatEmission, error: UnderstudyError | None, now: datetime) -> None:
    """Without permission to write on the source, heartbeats go to the target from now on."""
    state = turn.state
    turn.error = error.message if error else ""
    if error is None:
        state.written_at = now
        if state.place == "source":
            state.reason, state.place_since = "", None
    elif error.code == "not_authorised" and state.place == "source":
        alias = turn.flow.target.alias
        turn.error, turn.refusal = "", error.message
        state.place, state.place_since = "target", now
        state.reason = (
            f"{error.message} So they are written on {alias}, as MirrorMaker 2 does: they show "
            f"that {alias} is writable, not that records are replicated."
        )


def _keep_figures(turn: HeartbeatEmission, now: datetime) -> None:
    seen = figures(
        turn.arrivals,
        source=turn.beat.source,
        target=turn.beat.target,
        fresh=turn.beat.timestamp,
    )
    state = turn.state
    since_s = 0.0 if state.as_of is None else (now - state.as_of).total_seconds()
    late = late_sentence(state.missed, every_s=interval_s(turn.spec), seconds=since_s)
    missed, state.missed = state.missed, 0
    arrived = None if seen.seen_at is None else moment(seen.seen_at)
    state.seen_at = newest_time(state.seen_at, arrived, now)
    state.latency_ms, state.clock_skew_ms = seen.latency_ms, seen.clock_skew_ms
    state.as_of = now
    _keep(turn, now)
    run = open_run(flow_id=turn.flow.pk, name=NAME, slot=turn.slot, now=now)
    if run is not None:
        counts = {"watched": 1, "arrived": int(turn.has_arrived())}
        if missed:
            counts["missed"] = missed
        reasons = (*_reasons(turn), *([late] if late else []))
        outcome = Outcome(counts=counts, reasons=reasons)
        close_run(run=run, outcome=outcome, error=turn.error, fold=True)


def _reasons(turn: HeartbeatEmission) -> Iterator[str]:
    if turn.state.reason:
        yield turn.state.reason
    elif turn.topic is None:
        yield (
            "This flow does not replicate heartbeats topics, so none arrives: "
            "heartbeats.replication.enabled is false and topics does not match them."
        )
    elif turn.unread:
        yield f"Whether it arrives is unknown. {turn.unread}"
    elif not turn.error and not turn.has_arrived():
        waited = arrivals.WATCH_S
        yield f"The newest did not arrive within {waited} s; the next check reports more."


def _keep(turn: HeartbeatEmission, now: datetime) -> None:
    turn.state.error = turn.error
    turn.state.save(
        update_fields=[
            "missed",
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

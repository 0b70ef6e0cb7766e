"""Heartbeats of a flow: the topic on the target, and what an arrival shows.

A heartbeat is written on the source with the flow's own key. It is replicated with the flow's
records, so an arrived one proves the whole path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime

from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import Heartbeat
from mirrors.domain.replication_policy import HEARTBEATS, policy_for
from mirrors.domain.specs import FlowSpec

TOPIC = HEARTBEATS
# As MM2 creates the topic: one partition, compacted to the last heartbeat of each direction.
CONFIGS = {"cleanup.policy": "compact"}


@dataclasses.dataclass(frozen=True)
class ReceivedHeartbeat:
    """One record of a heartbeats topic and the time (epoch ms) at which it was read."""

    key: bytes | None
    value: bytes | None
    at: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """Results of a check.

    - `seen_at`: the newest heartbeat's own time.
    - `latency_ms`: only of a heartbeat that was read as it arrived.
    - `clock_skew_ms`: a lower bound of how much the writer's clock is ahead. A skew below a
      heartbeat's latency is invisible.
    """

    seen_at: int | None = None
    latency_ms: int | None = None
    clock_skew_ms: int | None = None


# A longer pause is an outage or a stop, which is reported elsewhere.
_LATE_WITHIN_S = 300


def missed_slots(before: int, slot: int, *, every_s: int, running_since: int) -> int:
    """Return how many heartbeats were due between two slots that were taken, and not written.

    All times in seconds since the epoch. A flow that started between them owed none.
    """
    if not before or before < running_since or slot - before > _LATE_WITHIN_S:
        return 0
    return max(0, (slot - before) // every_s - 1)


def late_sentence(missed: int, *, every_s: int, seconds: float) -> str:
    """Say that the interval was not kept. `seconds`: since the last check; empty if it was."""
    if not missed or seconds <= 0:
        return ""
    due = max(missed + 1, round(seconds / every_s))
    interval = seconds / max(1, due - missed)
    return (
        f"{missed} of the last {due} heartbeats were not written: no worker was free, or the "
        f"cluster was unreachable. One was written every {interval:.0f} s instead of {every_s} s. "
        "Start more workers, or raise emit.heartbeats.interval.seconds."
    )


def remote_heartbeats_topic(spec: FlowSpec) -> str | None:
    """Return the heartbeats topic's name on the target; None if the flow does not replicate it."""
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    if not TopicSelection(spec.settings, policy).decide(TOPIC).replicated:
        return None
    return policy.remote_topic(TOPIC)


def newest_time(
    seen_before: datetime | None, seen: datetime | None, now: datetime
) -> datetime | None:
    """Return the newest heartbeat time: an earlier check may have read further than this one.

    A future time means that its writer's clock is ahead; it would hide a silence.
    """
    if seen is None:
        return seen_before
    return max(seen, seen_before) if seen_before and seen_before <= now else seen


def figures(
    arrivals: Iterable[ReceivedHeartbeat], *, source: str, target: str, fresh: int | None
) -> Figures:
    """Return the results of one direction. `fresh`: the time in the awaited heartbeat."""
    seen_at, latency, ahead = None, None, 0
    for arrival in arrivals:
        try:
            beat = Heartbeat.read(arrival.key, arrival.value)
        except MalformedRecord:
            continue  # another program wrote it
        if (beat.source, beat.target) != (source, target):
            continue
        seen_at = beat.timestamp if seen_at is None else max(seen_at, beat.timestamp)
        ahead = max(ahead, beat.timestamp - arrival.at)
        if beat.timestamp == fresh:
            latency = max(0, arrival.at - beat.timestamp)
    skew = None if seen_at is None else ahead
    return Figures(seen_at=seen_at, latency_ms=latency, clock_skew_ms=skew)

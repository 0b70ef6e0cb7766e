"""Heartbeats of a flow: when the next is due, which topic carries it, what its arrival tells.

A heartbeat is written on the source with the flow's own key and comes to the target with the
flow's records, so that one which arrived proves the whole path.
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
# As MM2 makes the topic: one partition, and the last heartbeat of each direction is enough.
CONFIGS = {"cleanup.policy": "compact"}


@dataclasses.dataclass(frozen=True)
class Arrival:
    """One record of a heartbeats topic and the moment (epoch ms) at which it was seen."""

    key: bytes | None
    value: bytes | None
    at: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """`seen_at`: the newest heartbeat's own time. `latency_ms`: only of one seen as it arrived.

    `clock_skew_ms`: by how much the writer's clock is ahead of ours at least; below the latency
    of a heartbeat nothing can be told.
    """

    seen_at: int | None = None
    latency_ms: int | None = None
    clock_skew_ms: int | None = None


def carried_as(spec: FlowSpec) -> str | None:
    """The heartbeats topic's name on the target; None where the flow does not carry it."""
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    if not TopicSelection(spec.settings, policy).decide(TOPIC).replicated:
        return None
    return policy.remote_topic(TOPIC)


def newest(seen_before: datetime | None, seen: datetime | None, now: datetime) -> datetime | None:
    """What an earlier look saw stays seen, though this one did not read as far.

    One from the future says that its writer's clock is ahead; it would hide a silence.
    """
    if seen is None:
        return seen_before
    return max(seen, seen_before) if seen_before and seen_before <= now else seen


def figures(arrivals: Iterable[Arrival], *, source: str, target: str, fresh: int | None) -> Figures:
    """What the records tell of one direction; `fresh` is the time in the heartbeat waited for."""
    seen_at, latency, ahead = None, None, 0
    for arrival in arrivals:
        try:
            beat = Heartbeat.read(arrival.key, arrival.value)
        except MalformedRecord:
            continue  # a stranger wrote here; it is not ours to judge
        if (beat.source, beat.target) != (source, target):
            continue
        seen_at = beat.timestamp if seen_at is None else max(seen_at, beat.timestamp)
        ahead = max(ahead, beat.timestamp - arrival.at)
        if beat.timestamp == fresh:
            latency = max(0, arrival.at - beat.timestamp)
    skew = None if seen_at is None else ahead
    return Figures(seen_at=seen_at, latency_ms=latency, clock_skew_ms=skew)

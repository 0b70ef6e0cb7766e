"""Read on in an internal topic of one partition, from where one stopped the last time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.admin import Admin
from mirrors.kafka.internal import InternalRecord, consume

PAUSE_S = 0.02


@dataclasses.dataclass(frozen=True)
class Bookmark:
    """The topic that was read, by id, and the next offset."""

    topic_id: str = ""
    next: int = 0


@dataclasses.dataclass(frozen=True)
class Tail:
    """What there is to read: from `start` to `end`. `anew`: it is another topic than before."""

    topic: str
    topic_id: str
    start: int
    end: int
    anew: bool

    @property
    def done(self) -> Bookmark:
        return Bookmark(self.topic_id, self.end)


def find_tail(admin: Admin, topic: str, known: Bookmark, *, deadline_s: float) -> Tail | None:
    """What was committed behind the bookmark; None when there is no such topic.

    Waits until every transaction that has written there by now has ended: nothing is missing that
    was committed before the call. A writer hears of its commit before readers can see it.
    """
    until = time.monotonic() + deadline_s
    state = admin.snapshot([topic], now=0, deadline_s=deadline_s, with_configs=False)
    if topic not in state.topics:
        if topic in state.failed:
            raise KafkaUnavailable(state.failed[topic])
        return None
    found = state.topics[topic]
    anew = found.topic_id != known.topic_id
    written = _offset(admin, topic, "latest", until)
    while (stable := _offset(admin, topic, "stable", until)) < written:
        if time.monotonic() + PAUSE_S > until:
            raise KafkaUnavailable(
                f"Cluster {admin.spec.alias}: a transaction has been open in {topic} for "
                f"{deadline_s:g} s, so what comes after it cannot be read yet.",
                code="timeout",
            )
        time.sleep(PAUSE_S)
    # An end below the bookmark: an unclean leader lost what was read. Nothing remembered counts.
    anew = anew or stable < known.next
    first = _offset(admin, topic, "earliest", until)
    start = first if anew else max(first, known.next)
    return Tail(topic, found.topic_id, min(start, stable), stable, anew)


def read_tail(admin: Admin, tail: Tail, *, deadline_s: float) -> Iterator[InternalRecord]:
    """Its records in order. Who stops early goes on behind the last record that was taken."""
    if tail.start >= tail.end:
        return iter(())
    starts, ends = {0: tail.start}, {0: tail.end}
    return consume(admin.spec, tail.topic, starts, ends, True, time.monotonic() + deadline_s)


def _offset(admin: Admin, topic: str, at: str, until: float) -> int:
    left = max(0.5, until - time.monotonic())
    place = (topic, 0)
    return admin.list_offsets([place], at, deadline_s=left).raise_first().done[place]  # type: ignore[arg-type]

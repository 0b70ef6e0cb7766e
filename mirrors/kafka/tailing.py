"""Read on in an internal topic of one partition, from where one stopped the last time."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin import Admin
from mirrors.kafka.internal import InternalRecord, consume
from mirrors.kafka.news import Bookmark, Cut, News, Tail, still_open

__all__ = ["Bookmark", "Tail", "Tails", "find_tail", "kept_tails", "read_tail"]

CLIENT_ID = "understudy-tails"
PAUSE_S = 0.02
# Brokers and what lies before them hang up on who says nothing for longer.
IDLE_S = 60.0
KEPT = 8


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
            raise still_open(admin.spec.alias, topic, deadline_s)
        time.sleep(PAUSE_S)
    # An end below the bookmark: an unclean leader lost what was read. Nothing remembered counts.
    anew = anew or stable < known.next
    first = _offset(admin, topic, "earliest", until)
    start = first if anew else max(first, known.next)
    return Tail(topic, found.topic_id, min(start, stable), stable, anew)


def read_tail(spec: ClusterSpec, tail: Tail, *, deadline_s: float) -> Iterator[InternalRecord]:
    """Its records in order. Who stops early goes on behind the last record that was taken."""
    if tail.records is not None:
        return iter(tail.records)
    if tail.start >= tail.end:
        return iter(())
    starts, ends = {0: tail.start}, {0: tail.end}
    return consume(spec, tail.topic, starts, ends, True, time.monotonic() + deadline_s)


def _offset(admin: Admin, topic: str, at: str, until: float) -> int:
    left = max(0.5, until - time.monotonic())
    place = (topic, 0)
    return admin.list_offsets([place], at, deadline_s=left).raise_first().done[place]  # type: ignore[arg-type]


class Tails:
    """Tails of one cluster's topics: by one question where nothing is out of the ordinary."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self.used_at = time.monotonic()
        self._news = News(spec, client_id=CLIENT_ID)

    def find(self, topic: str, known: Bookmark, *, deadline_s: float) -> Tail | None:
        """As `find_tail`; the records may have come along."""
        until = time.monotonic() + deadline_s
        try:
            if known.topic_id and (tail := self._news.behind(topic, known, deadline_s=deadline_s)):
                return tail
            tail = self._find(topic, known, until)
            if known.epoch < 0 or tail is None or tail.anew:
                return tail
            # There is a leader now: it alone can say whether its log is the one that was read.
            with contextlib.suppress(KafkaUnavailable):
                left = max(0.5, until - time.monotonic())
                tail = self._news.behind(topic, known, deadline_s=left) or tail
            return tail
        except Cut:
            return self._find(topic, Bookmark(), until)

    def _find(self, topic: str, known: Bookmark, until: float) -> Tail | None:
        with Admin(self.spec, client_id=CLIENT_ID) as admin:
            left = max(0.5, until - time.monotonic())
            return find_tail(admin, topic, known, deadline_s=left)

    def read(self, tail: Tail, *, deadline_s: float) -> Iterator[InternalRecord]:
        return read_tail(self.spec, tail, deadline_s=deadline_s)

    def close(self) -> None:
        self._news.close()


_lock = threading.Lock()
_idle: dict[int, list[Tails]] = {}


@contextlib.contextmanager
def kept_tails(spec: ClusterSpec) -> Iterator[Tails]:
    """Connections that this process has open already, or new ones; kept for the next who asks.

    For one thread at a time. A cluster that was edited is another one; so are those that a process
    had open before it forked.
    """
    tails = _take(spec) or Tails(spec)
    try:
        yield tails
    except BaseException:
        tails.close()
        raise
    _give_back(tails)


def _take(spec: ClusterSpec) -> Tails | None:
    with _lock:
        mine = _idle.setdefault(os.getpid(), [])
        late = [tails for tails in mine if time.monotonic() - tails.used_at > IDLE_S]
        mine[:] = [tails for tails in mine if tails not in late]
        found = next((tails for tails in reversed(mine) if tails.spec == spec), None)
        if found is not None:
            mine.remove(found)
    for tails in late:
        tails.close()
    return found


def _give_back(tails: Tails) -> None:
    tails.used_at = time.monotonic()
    with _lock:
        mine = _idle.setdefault(os.getpid(), [])
        mine.append(tails)
        over = mine[:-KEPT]
        del mine[:-KEPT]
    for old in over:
        old.close()

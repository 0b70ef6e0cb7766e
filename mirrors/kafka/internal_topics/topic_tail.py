"""Read on in an internal topic of one partition, from where one stopped the last time."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import google_crc32c
from kafka.errors import KafkaError
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.record.default_records import DefaultRecordBatch

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.connection.cluster_requests import ClusterRequests
from mirrors.kafka.internal_topics.topic import InternalRecord, consume

__all__ = ["Bookmark", "Tail", "Tails", "find_tail", "kept_tails", "read_tail"]

CLIENT_ID = "understudy-tails"
PAUSE_S = 0.02
# Brokers and load balancers close connections that are idle for longer.
IDLE_S = 60.0
KEPT = 8
# From version 13 on a topic is named by its id: a recreated one is an error, not new records.
BY_ID, MOST = 13, 16
REPLY_BYTES = 1024 * 1024
REPLIES = 4
WAIT_MS = 25
_COMMITTED = 1
_LENGTH, _CRC, _COVERED = slice(8, 12), slice(17, 21), slice(21, None)
_MAGIC, _SUPPORTED = 16, 2


@dataclasses.dataclass(frozen=True)
class Bookmark:
    """The topic that was read, by id, and the next offset; `epoch`: under which leader the batch
    before it was written, -1 where that is not known."""

    topic_id: str = ""
    next: int = 0
    epoch: int = -1


@dataclasses.dataclass(frozen=True)
class Tail:
    """What to read: from `start` to `end`. `restarts`: it is another topic or log than before.

    `records` are those in between where they came along; None: they have to be fetched.
    """

    topic: str
    topic_id: str
    start: int
    end: int
    restarts: bool
    records: tuple[InternalRecord, ...] | None = None
    epoch: int = -1

    @property
    def done(self) -> Bookmark:
        return Bookmark(self.topic_id, self.end, self.epoch)


class Cut(Exception):
    """The log below the bookmark is not the one that was read (KIP-320)."""


def still_open(alias: str, topic: str, deadline_s: float) -> KafkaUnavailable:
    return KafkaUnavailable(
        f"Cluster {alias}: a transaction has been open in {topic} for {deadline_s:g} s, so later "
        "records cannot be read yet.",
        code="timeout",
    )


class _Leader(NamedTuple):
    topic_id: UUID
    node: int


class _Odd(Exception):
    """Not the ordinary case: somebody has to look closely."""


class News:
    """Of one cluster; for one thread at a time."""

    def __init__(self, spec: ClusterSpec, *, client_id: str) -> None:
        self._spec = spec
        self._client_id = client_id
        self._known: ClusterRequests | None = None
        self._leaders: dict[str, _Leader] = {}

    def close(self) -> None:
        """The next request opens a new connection, with the secrets of that time."""
        self._leaders.clear()
        if self._known is not None:
            self._known.close()
            self._known = None

    def behind(self, topic: str, known: Bookmark, *, deadline_s: float) -> Tail | None:
        """What was committed behind the bookmark by now; None: look closely.

        Raises Cut, and KafkaUnavailable where a transaction stays open for so long.
        """
        until = time.monotonic() + deadline_s
        try:
            self._cluster.extend(deadline_s)
            leader = self._leader(topic)
            if _text(leader.topic_id) != known.topic_id:
                raise _Odd
            tail = self._read(topic, leader, known, until)
        except (_Odd, UnderstudyError, KafkaError, ValueError, IndexError):
            self.close()
            return None
        if tail is None:
            raise still_open(self._spec.alias, topic, deadline_s)
        return tail

    @property
    def _cluster(self) -> ClusterRequests:
        if self._known is None:
            self._known = ClusterRequests(self._spec, deadline_s=0, client_id=self._client_id)
        return self._known

    def _leader(self, topic: str) -> _Leader:
        if (known := self._leaders.get(topic)) is not None:
            return known
        asked = MetadataRequest.MetadataRequestTopic(name=topic)
        request = MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
        answer = self._cluster.ask_any(request, newest=12)
        (found,) = answer.topics
        if found.error_code or not found.partitions or not found.topic_id:
            raise _Odd
        self._cluster.learn(answer)
        (leader,) = [row.leader_id for row in found.partitions if row.partition_index == 0]
        if leader not in self._cluster.brokers:
            raise _Odd
        self._leaders[topic] = _Leader(found.topic_id, leader)
        return self._leaders[topic]

    def _read(self, topic: str, leader: _Leader, known: Bookmark, until: float) -> Tail | None:
        """None: a transaction is still open."""
        records: list[InternalRecord] = []
        at, epoch, written, replies, wait_ms = known.next, known.epoch, None, 0, 0
        while True:
            part = self._fetch(leader, at, epoch, wait_ms)
            stable = part.last_stable_offset
            # What was written by the first reply counts: it may be committed, and only we do not
            # see that yet. A writer hears of its commit before readers do.
            written = part.high_watermark if written is None else written
            if stable < known.next:
                raise _Odd
            before = at
            for found, batch in _batches(part, before):
                records += found
                at, epoch = batch.next_offset, batch.leader_epoch
            if at >= stable >= written:
                brought = tuple(records)
                return Tail(topic, known.topic_id, known.next, stable, False, brought, epoch)
            if at < stable:
                replies += 1
                if at == before or replies == REPLIES:
                    raise _Odd
            elif time.monotonic() + WAIT_MS / 1000 > until:
                return None
            else:
                wait_ms = WAIT_MS

    def _fetch(self, leader: _Leader, at: int, epoch: int, wait_ms: int) -> Any:
        topic = FetchRequest.FetchTopic
        one = topic.FetchPartition(
            partition=0,
            fetch_offset=at,
            partition_max_bytes=REPLY_BYTES,
            current_leader_epoch=-1,
            last_fetched_epoch=epoch,
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=REPLY_BYTES,
            isolation_level=_COMMITTED,
            topics=[topic(topic_id=leader.topic_id, partitions=[one])],
            forgotten_topics_data=[],
        )
        if self._cluster.newest_version(leader.node, request) < BY_ID:
            raise _Odd
        answer = self._cluster.ask_broker(leader.node, request, newest=MOST)
        if answer.error_code:
            raise _Odd
        part = answer.responses[0].partitions[0]
        if part.error_code:
            raise _Odd
        if part.diverging_epoch is not None and part.diverging_epoch.end_offset >= 0:
            raise Cut
        return part


def _batches(part: Any, start: int) -> Iterator[tuple[list[InternalRecord], Any]]:
    """The committed records of each batch from the offset on, and the batch."""
    data = memoryview(bytes(part.records or b""))
    aborted = sorted((row.first_offset, row.producer_id) for row in part.aborted_transactions or ())
    given_up: set[int] = set()
    while len(data) > _MAGIC:
        size = int.from_bytes(data[_LENGTH], "big") + 12
        if size > len(data):
            return  # the last one of a reply may be cut off
        batch = _checked(data[:size])
        data = data[size:]
        while aborted and aborted[0][0] <= batch.last_offset:
            given_up.add(aborted.pop(0)[1])
        if batch.is_control_batch:
            given_up.discard(batch.producer_id)
            yield [], batch
        elif batch.is_transactional and batch.producer_id in given_up:
            yield [], batch
        else:
            yield [_record(row) for row in batch if row.offset >= start], batch


def _checked(data: memoryview) -> Any:
    if data[_MAGIC] != _SUPPORTED:
        raise _Odd
    if google_crc32c.value(bytes(data[_COVERED])) != int.from_bytes(data[_CRC], "big"):
        raise _Odd
    return DefaultRecordBatch(data)


def _record(row: Any) -> InternalRecord:
    return InternalRecord(0, row.offset, row.timestamp, row.key, row.value, tuple(row.headers))


def _text(topic_id: UUID) -> str:
    """Kafka's own text form of an id."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode("ascii").rstrip("=")


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
    restarts = found.topic_id != known.topic_id
    written = _offset(admin, topic, "latest", until)
    while (stable := _offset(admin, topic, "stable", until)) < written:
        if time.monotonic() + PAUSE_S > until:
            raise still_open(admin.spec.alias, topic, deadline_s)
        time.sleep(PAUSE_S)
    # An end below the bookmark: an unclean leader lost what was read. Nothing remembered counts.
    restarts = restarts or stable < known.next
    first = _offset(admin, topic, "earliest", until)
    start = first if restarts else max(first, known.next)
    return Tail(topic, found.topic_id, min(start, stable), stable, restarts)


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
            if known.epoch < 0 or tail is None or tail.restarts:
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

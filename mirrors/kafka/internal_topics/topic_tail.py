"""Reads an internal topic of one partition from a stored position to its end."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Iterator

from kafka.errors import KafkaError
from kafka.record.default_records import DefaultRecordBatch

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.log_reader import (
    LogBatch,
    LogReader,
    OpenTransaction,
    OutOfRange,
    RangeTooLong,
    Recreated,
    Truncated,
    transaction_still_open,
)
from mirrors.kafka.internal_topics.topic import InternalRecord, consume
from mirrors.kafka.protocol.addresses import Address
from mirrors.kafka.protocol.broker_pool import BrokerPool
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.security.connection_settings import ConnectionFacts

__all__ = [
    "CommittedRange",
    "LogPosition",
    "TopicReader",
    "find_range",
    "pooled_reader",
    "read_range",
]

CLIENT_ID = "understudy-tails"
PAUSE_S = 0.02
# Brokers and load balancers close connections that are idle for longer.
IDLE_S = 60.0
MAX_IDLE_READERS = 8
# A longer range is read by librdkafka, which needs less CPU time a record.
REPLY_BYTES = 1024 * 1024
MAX_RESPONSES = 4
# A range that `find_range` has to determine, and records that kafka-python cannot decode.
_FALLBACK_ERRORS = OutOfRange, Recreated, RangeTooLong, KafkaError, ValueError, IndexError


@dataclasses.dataclass(frozen=True)
class LogPosition:
    """The id of the topic that was read, and the next offset.

    `epoch`: the leader epoch of the batch before it; -1 if unknown.
    """

    topic_id: str = ""
    offset: int = 0
    epoch: int = -1


@dataclasses.dataclass(frozen=True)
class CommittedRange:
    """The range to read, from `start` to `end`.

    - `is_other_log`: the topic was recreated or truncated since the last read.
    - `records`: the records of the range if they came with the responses; None: fetch them.
    """

    topic: str
    topic_id: str
    start: int
    end: int
    is_other_log: bool
    records: tuple[InternalRecord, ...] | None = None
    epoch: int = -1

    @property
    def end_position(self) -> LogPosition:
        return LogPosition(self.topic_id, self.end, self.epoch)


def find_range(
    admin: Admin, topic: str, known: LogPosition, *, deadline_s: float
) -> CommittedRange | None:
    """The range that was committed after the position; None if there is no such topic.

    Waits until every transaction that has written there by now has ended, so everything committed
    before the call is included. A writer sees its commit before readers do.
    """
    until = time.monotonic() + deadline_s
    state = admin.snapshot([topic], now=0, deadline_s=deadline_s, with_configs=False)
    if topic not in state.topics:
        if topic in state.failed:
            raise KafkaUnavailable(state.failed[topic])
        return None
    found = state.topics[topic]
    is_other_log = found.topic_id != known.topic_id
    written = _offset(admin, topic, "latest", until)
    while (stable := _offset(admin, topic, "stable", until)) < written:
        if time.monotonic() + PAUSE_S > until:
            raise transaction_still_open(admin.spec.alias, topic, deadline_s)
        time.sleep(PAUSE_S)
    # An end below the position: an unclean leader lost what was read. Nothing remembered counts.
    is_other_log = is_other_log or stable < known.offset
    first = _offset(admin, topic, "earliest", until)
    start = first if is_other_log else max(first, known.offset)
    return CommittedRange(topic, found.topic_id, min(start, stable), stable, is_other_log)


def read_range(
    spec: ClusterSpec, tail: CommittedRange, *, deadline_s: float
) -> Iterator[InternalRecord]:
    """Its records in order. A caller that stops early continues after its last record."""
    if tail.records is not None:
        return iter(tail.records)
    if tail.start >= tail.end:
        return iter(())
    starts, ends = {0: tail.start}, {0: tail.end}
    return consume(spec, tail.topic, starts, ends, True, time.monotonic() + deadline_s)


def _offset(admin: Admin, topic: str, at: str, until: float) -> int:
    left = max(0.5, until - time.monotonic())
    tp = (topic, 0)
    return admin.list_offsets([tp], at, deadline_s=left).raise_first().done[tp]  # type: ignore[arg-type]


class TopicReader:
    """Reads the ends of topics of one cluster, with its own connections. For one thread at a
    time."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self.used_at = time.monotonic()
        self._brokers = BrokerPool(spec, spec.properties, _new_connection)
        self._readers: dict[str, LogReader] = {}

    def find(self, topic: str, known: LogPosition, *, deadline_s: float) -> CommittedRange | None:
        """Like `find_range`; a short range includes its records."""
        until = time.monotonic() + deadline_s
        try:
            if known.topic_id and (tail := self.fetch_range(topic, known, deadline_s=deadline_s)):
                return tail
            tail = self._find(topic, known, until)
            if known.epoch < 0 or tail is None or tail.is_other_log:
                return tail
            # There is a leader now. Only it knows whether its log is the one that was read.
            with contextlib.suppress(KafkaUnavailable):
                left = max(0.5, until - time.monotonic())
                tail = self.fetch_range(topic, known, deadline_s=left) or tail
            return tail
        except Truncated:
            return self._find(topic, LogPosition(), until)

    def fetch_range(
        self, topic: str, known: LogPosition, *, deadline_s: float
    ) -> CommittedRange | None:
        """The committed records after the position, by Fetch requests.

        None if that is not possible: another topic, no leader, a long range. Raises Truncated, and
        KafkaUnavailable for a transaction that stays open.
        """
        reader = self._readers.get(topic)
        if reader is None:
            reader = LogReader(self._brokers, topic, reply_bytes=REPLY_BYTES, caches_leader=True)
            self._readers[topic] = reader
        reader.seek(known.topic_id, known.offset, known.epoch)
        records: list[InternalRecord] = []
        try:
            for batch in reader.read_committed(time.monotonic() + deadline_s, most=MAX_RESPONSES):
                records += _decode(batch, known.offset)
        except (*_FALLBACK_ERRORS, UnderstudyError) as error:
            # The next request opens a new connection, with the secrets of that time.
            self.close()
            if isinstance(error, OpenTransaction):
                raise
            return None
        done = reader.next_offset or 0
        return CommittedRange(
            topic, known.topic_id, known.offset, done, False, tuple(records), reader.epoch
        )

    def _find(self, topic: str, known: LogPosition, until: float) -> CommittedRange | None:
        with Admin(self.spec, client_id=CLIENT_ID) as admin:
            left = max(0.5, until - time.monotonic())
            return find_range(admin, topic, known, deadline_s=left)

    def read(self, tail: CommittedRange, *, deadline_s: float) -> Iterator[InternalRecord]:
        return read_range(self.spec, tail, deadline_s=deadline_s)

    def close(self) -> None:
        self._readers.clear()
        self._brokers.close()


def _new_connection(facts: ConnectionFacts, address: Address) -> BrokerConnection:
    return BrokerConnection(facts, *address, client_id=CLIENT_ID)


def _decode(batch: LogBatch, start: int) -> Iterator[InternalRecord]:
    if batch.is_control:
        return
    for row in DefaultRecordBatch(batch.data):
        if row.offset >= start:
            yield InternalRecord(
                0, row.offset, row.timestamp, row.key, row.value, tuple(row.headers)
            )


_lock = threading.Lock()
_idle: dict[int, list[TopicReader]] = {}


@contextlib.contextmanager
def pooled_reader(spec: ClusterSpec) -> Iterator[TopicReader]:
    """A reader with open connections of this process, or a new one; returned to the pool
    afterwards.

    For one thread at a time. A cluster that was edited is another one. Connections from before a
    fork are not used.
    """
    reader = _take_idle_reader(spec) or TopicReader(spec)
    try:
        yield reader
    except BaseException:
        reader.close()
        raise
    _return_reader(reader)


def _take_idle_reader(spec: ClusterSpec) -> TopicReader | None:
    with _lock:
        readers = _idle.setdefault(os.getpid(), [])
        late = [reader for reader in readers if time.monotonic() - reader.used_at > IDLE_S]
        readers[:] = [reader for reader in readers if reader not in late]
        found = next((reader for reader in reversed(readers) if reader.spec == spec), None)
        if found is not None:
            readers.remove(found)
    for reader in late:
        reader.close()
    return found


def _return_reader(reader: TopicReader) -> None:
    reader.used_at = time.monotonic()
    with _lock:
        readers = _idle.setdefault(os.getpid(), [])
        readers.append(reader)
        over = readers[:-MAX_IDLE_READERS]
        del readers[:-MAX_IDLE_READERS]
    for old in over:
        old.close()

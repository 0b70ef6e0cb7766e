"""Reads the batches of one range of a partition by Fetch requests, for one comparison task."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.kafka.error_codes import Code
from mirrors.kafka.error_table import LEADER_MOVED, RETRIABLE, error_of_number
from spark_runner.engine.batches import message_v0_v1
from spark_runner.engine.batches.header_scan import (
    AbortedFilter,
    is_abort_marker,
    min_size,
    read_headers,
)
from spark_runner.engine.batches.record_bytes import RecordBytes, read_records
from spark_runner.kafka_protocol import fetch
from spark_runner.kafka_protocol.batch_header import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Header,
    checksum_holds,
)
from spark_runner.kafka_protocol.cluster import REQUEST_S, ClusterClient
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.produce import name_key
from spark_runner.kafka_protocol.request_header import FETCH
from spark_runner.native.crc32c import address_of

REPLY_BYTES: Final = 4 << 20
_WAIT_MS: Final = 100
# Seconds without any progress before the range counts as unreadable.
PATIENCE_S: Final = 30.0
# A new leader's last stable offset may be behind for a moment.
_END_S: Final = 3.0
_PAUSE_S: Final = 0.2


class Batch(Protocol):
    """Consecutive records."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def is_append_time(self) -> bool:
        """Whether the broker set the timestamps."""

    def has_same_records(self, other: Batch) -> bool: ...

    def records(self) -> list[RecordBytes]: ...


class Reader(Protocol):
    """The records of a range, batch by batch (`RangeReader`)."""

    @property
    def reached(self) -> int: ...

    def next(self) -> Batch | None: ...

    def close(self) -> None: ...


class LogBatch(NamedTuple):
    """One batch with data. `data` is all of it."""

    header: Header
    data: memoryview

    @property
    def first_offset(self) -> int:
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        return self.header.last_offset

    @property
    def is_append_time(self) -> bool:
        return self.header.magic == 2 and bool(self.header.attributes & LOG_APPEND_TIME)

    @property
    def body(self) -> memoryview:
        """What follows the header: the records, as they are compressed."""
        return self.data[HEADER_SIZE:]

    def has_same_records(self, other: Batch) -> bool:
        """Whether both are the same bytes apart from offsets and producer: the raw lane copies so.

        False says nothing.
        """
        if not isinstance(other, LogBatch):
            return False
        one, two = self.header, other.header
        kinds = (one.attributes ^ two.attributes) & ~TRANSACTIONAL
        return (
            one.magic == two.magic == 2
            and one.length == two.length
            and not kinds
            and not one.attributes & LOG_APPEND_TIME
            and one.records == two.records
            and one.base_timestamp == two.base_timestamp
            and bytes(self.body) == bytes(other.body)
        )

    def records(self) -> list[RecordBytes]:
        """Raises ValueError or IndexError for corrupt bytes."""
        if self.header.magic != 2:
            return message_v0_v1.pieces(self.data)
        return list(read_records(self.data, self.header, keep_append_time=True))


class RangeReader:
    """The batches with data from offset `first` up to but without `end`, in order.

    The next response is requested before the last one is used. `reached`: all batches below it
    were returned.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        tp: tuple[str, int],
        first: int,
        end: int,
        *,
        committed: bool,
    ) -> None:
        self._cluster = cluster
        self._topic, self._partition = tp
        self._end = end
        self._isolation = fetch.READ_COMMITTED if committed else fetch.READ_UNCOMMITTED
        self._fetch_at = first
        self._waiting: deque[LogBatch] = deque()
        self._connection: Connection | None = None
        self._version = 0
        self._moved_at = time.monotonic()
        self.reached = first

    def next(self) -> LogBatch | None:
        """The next batch; None at the end. Raises UnderstudyError."""
        while not self._waiting:
            if self._fetch_at >= self._end:
                self.reached = self._end
                return None
            self._receive()
        batch = self._waiting.popleft()
        self.reached = max(self.reached, batch.header.base_offset)
        return batch

    def close(self) -> None:
        if self._connection is not None:
            self._cluster.discard(self._connection)
            self._connection = None

    def _receive(self) -> None:
        """Take one response, and ask for the next one."""
        try:
            if self._connection is None:
                self._connect()
            assert self._connection is not None  # noqa: S101 - set by `_connect`
            frame = self._connection.receive(None, self._until())
            _, reply = fetch.read_reply(frame, self._version)
            self._connection.note_throttle(reply.throttle_ms)
            row = reply.partitions[0] if reply.partitions else None
        except KafkaUnavailable as error:
            self._fail(error)
            return
        number = reply.error or (Code.UNKNOWN_SERVER_ERROR if row is None else row.error)
        if number or row is None:
            self._refuse(number)
            return
        before = self._fetch_at
        found = list(self._batches(frame, row))
        if self._fetch_at > before:
            self._moved_at = time.monotonic()
        elif self._is_over(row):
            self._fetch_at = self._end
        if self._fetch_at < self._end:
            self._request()
        self._waiting.extend(found)

    def _is_over(self, row: fetch.PartitionData) -> bool:
        """Whether the log has nothing more of the range. Raises KafkaUnavailable when it stands."""
        idle = time.monotonic() - self._moved_at
        stable = row.stable_offset if self._isolation else row.high_watermark
        if self._fetch_at >= stable and idle > _END_S:
            return True
        if idle > PATIENCE_S:
            raise KafkaUnavailable(
                f"Cluster {self._cluster.alias}: {self._topic}-{self._partition} gave no record "
                f"after offset {self._fetch_at} within {PATIENCE_S:g} s. Check its brokers."
            )
        return False

    def _batches(self, frame: memoryview, row: fetch.PartitionData) -> Iterator[LogBatch]:
        """Batches with data, as far as they are complete."""
        aborted = AbortedFilter(row.aborted) if row.aborted else None
        memory, address = frame, address_of(frame)
        at = row.start
        for header in read_headers(memory, at, row.stop):
            size = header.size
            if size < min_size(header) or not _is_intact(header, memory, at, address):
                raise KafkaRefused(
                    f"Cluster {self._cluster.alias}: {self._topic}-{self._partition} has a damaged "
                    f"batch at offset {header.base_offset}. Its checksum or size is wrong.",
                    code="unreadable",
                )
            first, after = header.base_offset, header.last_offset + 1
            if first >= self._end:
                self._fetch_at = self._end
                return
            is_new = after > self._fetch_at and header.records > 0
            if header.attributes & CONTROL:
                if aborted is not None and is_abort_marker(memory, at):
                    aborted.ended(header)
            elif is_new and not (
                aborted is not None
                and header.attributes & TRANSACTIONAL
                and aborted.is_aborted(header)
            ):
                yield LogBatch(header, memory[at : at + size])
            self._fetch_at = max(self._fetch_at, after)
            at += size

    # -- connection

    def _until(self) -> float:
        return time.monotonic() + REQUEST_S

    def _connect(self) -> None:
        until = time.monotonic() + PATIENCE_S
        view = self._cluster.describe([self._topic], until).get(self._topic)
        leader = view.leaders.get(self._partition) if view is not None else None
        if view is None or view.error or leader is None:
            number = view.error if view is not None and view.error else 0
            raise self._error(number or Code.UNKNOWN_TOPIC_OR_PARTITION)
        if leader.node < 0:
            raise self._error(Code.LEADER_NOT_AVAILABLE)
        purpose = f"compare {self._topic}-{self._partition}"
        connection = self._cluster.connection(leader.node, purpose, until)
        self._version = connection.version(FETCH, fetch.MIN_VERSION, fetch.MAX_VERSION, "Fetch")
        by_id = self._version >= fetch.TOPIC_ID_VERSION
        self._key = view.topic_id if by_id else name_key(self._topic)
        self._epoch = leader.epoch
        self._connection = connection
        self._request()

    def _request(self) -> None:
        assert self._connection is not None  # noqa: S101 - callers have one
        session = fetch.FetchSession(
            self._version,
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=REPLY_BYTES,
            isolation=self._isolation,
            is_persistent=False,
        )
        session.add(
            fetch.FetchPartition(
                self._key, self._partition, self._fetch_at, self._epoch, -1, REPLY_BYTES
            )
        )
        until = self._until()
        self._connection.wait_out_throttle(until)
        self._connection.send([session.request(self._connection.next_correlation())], until)

    def _refuse(self, number: int) -> None:
        """An error of the broker: look up the leader again, or raise."""
        if number == Code.OFFSET_OUT_OF_RANGE:
            raise KafkaRefused(
                f"Cluster {self._cluster.alias}: {self._topic}-{self._partition} does not hold "
                f"offset {self._fetch_at} any more. Retention deleted it, or the log was "
                "truncated. Compare again.",
                code="out_of_range",
            )
        error = self._error(number)
        if number not in RETRIABLE and number not in LEADER_MOVED:
            raise error
        self._fail(error)

    def _fail(self, error: UnderstudyError) -> None:
        """Connect again after a pause, as long as patience lasts."""
        self.close()
        if time.monotonic() - self._moved_at > PATIENCE_S:
            raise error
        time.sleep(_PAUSE_S)

    def _error(self, number: int) -> UnderstudyError:
        doing = f"read {self._topic}-{self._partition}"
        return error_of_number(number, where=self._cluster.alias, doing=doing)


def _is_intact(header: Header, memory: memoryview, at: int, address: int) -> bool:
    if header.magic == 2:
        return checksum_holds(memory, at, address + at, header.size)
    return message_v0_v1.is_intact(memory[at : at + header.size])

"""Fetch requests over a session (KIP-227), and responses whose records are not copied.

Versions 12 (by topic name, Kafka 2.8+) and 13 to 16 (by topic id, KIP-516). By id, a recreated
topic is an error. By name, its new records would be read without one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from spark_runner.kafka_protocol import varint
from spark_runner.kafka_protocol.request_header import FETCH, TopicKey, request_header

MIN_VERSION: Final = 12
TOPIC_ID_VERSION: Final = 13
MAX_VERSION: Final = 16

_LIMITS: Final = struct.Struct(">iiibii")
_PARTITION: Final = struct.Struct(">iiqiqib")
_INDEX: Final = struct.Struct(">i")
_REPLY_HEAD: Final = struct.Struct(">ibihi")
_REPLY_PARTITION: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qqb")
_EPOCH_END: Final = struct.Struct(">iq")

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
_NO_SESSION: Final = -1
_DIVERGING: Final = 0


class FetchPartition(NamedTuple):
    """One partition in a request. `last_epoch` lets the broker detect a truncation (KIP-320)."""

    key: TopicKey
    partition: int
    offset: int
    leader_epoch: int
    last_epoch: int
    max_bytes: int


class PartitionData(NamedTuple):
    """One partition in a response. Its batches are `frame[start:stop]`; the last may be incomplete.

    `diverging` is (epoch, end offset) if the log before our position is not the one that we read.
    """

    key: TopicKey
    partition: int
    error: int
    high_watermark: int
    stable_offset: int
    log_start: int
    aborted: tuple[tuple[int, int], ...]
    start: int
    stop: int
    diverging: tuple[int, int] | None


class FetchResponse(NamedTuple):
    throttle_ms: int
    error: int
    partitions: list[PartitionData]


class FetchSession:
    """The fetch session of one connection: a request lists only what has changed.

    A broker without room for a session answers with id 0. Then every request lists everything, and
    the list is rotated, because the broker fills its response in list order. A session that is not
    `is_persistent` is never created: a broker keeps few, for all its clients.
    """

    def __init__(
        self,
        version: int,
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: int = READ_COMMITTED,
        is_persistent: bool = True,
    ) -> None:
        self.version = version
        self._lasting = is_persistent
        self._limits = (max_wait_ms, min_bytes, max_bytes, isolation)
        self._session = 0
        self._epoch = 0
        self._members: dict[tuple[TopicKey, int], FetchPartition] = {}
        self._changed: dict[tuple[TopicKey, int], FetchPartition] = {}
        self._forgotten: list[tuple[TopicKey, int]] = []

    def add(self, wanted: FetchPartition) -> None:
        """Fetch this partition from this offset, from the next request on."""
        self._members[wanted.key, wanted.partition] = wanted
        self._changed[wanted.key, wanted.partition] = wanted

    def remove(self, key: TopicKey, index: int) -> None:
        """Stop fetching this partition until it is wanted again."""
        if self._members.pop((key, index), None) is not None:
            self._changed.pop((key, index), None)
            self._forgotten.append((key, index))

    def limit(self, *, max_bytes: int, max_wait_ms: int) -> None:
        """Set the maximum size of the next response, and how long the broker may wait for data."""
        self._limits = (max_wait_ms, self._limits[1], max_bytes, self._limits[3])

    def reset(self) -> None:
        """Start a new session with all wanted partitions. The broker drops the old one."""
        self._session = self._epoch = 0

    @property
    def members(self) -> int:
        return len(self._members)

    def request(self, correlation: int) -> bytes:
        """The frame of the next request."""
        if self._epoch == 0:
            listed: Iterable[FetchPartition] = self._members.values()
            forgotten: list[tuple[TopicKey, int]] = []
        else:
            listed = self._changed.values()
            # A partition that was forgotten and wanted again is only listed.
            forgotten = [tp for tp in self._forgotten if tp not in self._members]
        body = self._encode(correlation, listed, forgotten)
        self._changed = {}
        self._forgotten = []
        return body

    def answered(self, error: int, session: int) -> bool:
        """Apply the head of a response. False if its partitions are not valid."""
        if error:
            # The broker dropped the session or has another epoch. Start again.
            self.reset()
            return False
        if session == 0:
            self.reset()
            self._rotate()
        else:
            self._session = session
            self._epoch = self._epoch % 0x7FFFFFFF + 1
        return True

    def _rotate(self) -> None:
        if self._members:
            first = next(iter(self._members))
            self._members[first] = self._members.pop(first)

    def _encode(
        self,
        correlation: int,
        listed: Iterable[FetchPartition],
        forgotten: list[tuple[TopicKey, int]],
    ) -> bytes:
        body = bytearray(4)
        body += request_header(FETCH, self.version, correlation)
        if self.version < 15:
            body += _INDEX.pack(-1)
        epoch = self._epoch if self._lasting else _NO_SESSION
        body += _LIMITS.pack(*self._limits, self._session, epoch)
        _put_topics(body, listed)
        _put_forgotten(body, forgotten)
        body += b"\x01\x00"  # rack id "", no tags
        _INDEX.pack_into(body, 0, len(body) - 4)
        return bytes(body)


def _put_topics(body: bytearray, listed: Iterable[FetchPartition]) -> None:
    topics: dict[TopicKey, list[FetchPartition]] = {}
    for wanted in listed:
        topics.setdefault(wanted.key, []).append(wanted)
    body += varint.unsigned(len(topics) + 1)
    for key, rows in topics.items():
        body += key
        body += varint.unsigned(len(rows) + 1)
        for _, index, offset, leader_epoch, last_epoch, max_bytes in rows:
            body += _PARTITION.pack(index, leader_epoch, offset, last_epoch, -1, max_bytes, 0)
        body += b"\x00"


def _put_forgotten(body: bytearray, forgotten: list[tuple[TopicKey, int]]) -> None:
    topics: dict[TopicKey, list[int]] = {}
    for key, index in forgotten:
        topics.setdefault(key, []).append(index)
    body += varint.unsigned(len(topics) + 1)
    for key, rows in topics.items():
        body += key
        body += varint.unsigned(len(rows) + 1)
        body += b"".join(map(_INDEX.pack, rows))
        body += b"\x00"


def read_reply(frame: memoryview, version: int) -> tuple[int, FetchResponse]:
    """The session id and the partitions of a response. The records are not copied."""
    _, tags, throttle, error, session = _REPLY_HEAD.unpack_from(frame)
    at = _REPLY_HEAD.size
    if tags:
        raise ValueError("unexpected tags in a response header")
    count, at = varint.read_unsigned(frame, at)
    rows: list[PartitionData] = []
    for _ in range(count - 1):
        key, at = _read_key(frame, at, version)
        parts, at = varint.read_unsigned(frame, at)
        for _ in range(parts - 1):
            row, at = _read_partition(frame, at, key)
            rows.append(row)
        at = varint.skip_tags(frame, at)
    return session, FetchResponse(throttle, error, rows)


def _read_key(frame: memoryview, at: int, version: int) -> tuple[TopicKey, int]:
    if version >= TOPIC_ID_VERSION:
        return bytes(frame[at : at + 16]), at + 16
    size, after = varint.read_unsigned(frame, at)
    return bytes(frame[at : after + size - 1]), after + size - 1


def _read_partition(frame: memoryview, at: int, key: TopicKey) -> tuple[PartitionData, int]:
    index, error, high, stable, log_start = _REPLY_PARTITION.unpack_from(frame, at)
    count, at = varint.read_unsigned(frame, at + _REPLY_PARTITION.size)
    aborted: tuple[tuple[int, int], ...] = ()
    if count > 1:
        size = _ABORTED.size * (count - 1)
        aborted = tuple(
            (first, producer) for producer, first, _ in _ABORTED.iter_unpack(frame[at : at + size])
        )
        at += size
    # 4 bytes: the preferred read replica (KIP-392), which needs a rack in the request.
    size, start = varint.read_unsigned(frame, at + 4)
    stop = start + max(size - 1, 0)
    diverging, at = _read_diverging(frame, stop)
    row = PartitionData(key, index, error, high, stable, log_start, aborted, start, stop, diverging)
    return row, at


def _read_diverging(frame: memoryview, at: int) -> tuple[tuple[int, int] | None, int]:
    if frame[at] == 0:
        return None, at + 1
    count, at = varint.read_unsigned(frame, at)
    diverging = None
    for _ in range(count):
        tag, at = varint.read_unsigned(frame, at)
        size, at = varint.read_unsigned(frame, at)
        if tag == _DIVERGING:
            epoch, end = _EPOCH_END.unpack_from(frame, at)
            diverging = (epoch, end)
        at += size
    return diverging, at

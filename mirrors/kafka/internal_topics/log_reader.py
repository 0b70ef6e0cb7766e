"""Reads one partition of an internal topic by Fetch requests, from where it stopped before.

Invariants:

- A log that is not the one that was read is an error, never other records. The broker compares the
  leader epoch of the last batch (KIP-320) and the topic id (KIP-516) with its own.
- A read ends where the log ended when it began. A new leader's high watermark may be behind what
  was committed, so the end comes from ListOffsets, which waits for it (KIP-207). The high watermark
  of one leader never moves back, so later the first Fetch response tells the end.
- Offsets without records are usual: transaction markers, aborted and compacted batches.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

import google_crc32c
from kafka.protocol.consumer import FetchRequest
from kafka.record.default_records import DefaultRecordBatch

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.kafka.error_codes import Code
from mirrors.kafka.error_table import RETRIABLE, error_of_number
from mirrors.kafka.protocol.broker_pool import REQUESTS, BrokerPool
from mirrors.kafka.protocol.list_offsets import EARLIEST, LATEST, list_offsets
from mirrors.kafka.protocol.metadata import Leader, TopicView, describe_topics, id_text

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
# From version 13 on a request names the topic by id, so a recreated one is an error.
TOPIC_ID_VERSION = 13
REPLY_BYTES = 4 << 20
# How long the broker may wait for more: for the end of a transaction, and for anything at all.
WAIT_MS = 25
_REQUEST_S = 30.0
_LENGTH, _CRC, _CHECKED = slice(8, 12), slice(17, 21), slice(21, None)
_LENGTH_END, _MAGIC_AT, _MAGIC = 12, 16, 2
_HEADER: Final = DefaultRecordBatch.HEADER_STRUCT


class Truncated(Exception):
    """The log below the read offset is not the log that was read."""


class OutOfRange(Truncated):
    """The log does not have the offset: it was truncated, or its first records were deleted."""


class Recreated(Truncated):
    """The topic was recreated."""


class OpenTransaction(KafkaUnavailable):
    """An open transaction hides later records."""


class RangeTooLong(Exception):
    """The range takes more responses than the caller allows."""


class LogBatch(NamedTuple):
    """One batch v2. `data` is the whole batch; `producer_id` is -1 outside of transactions.

    `has_outcome`: its transaction, if any, has ended, and `is_aborted` is valid. Otherwise a later
    control batch shows the outcome.
    """

    next_offset: int
    leader_epoch: int
    producer_id: int
    is_control: bool
    has_outcome: bool
    is_aborted: bool
    data: memoryview


@dataclasses.dataclass(frozen=True, slots=True)
class _Reply:
    high_watermark: int
    stable_offset: int
    batches: list[LogBatch]


class LogReader:
    """For one thread. Deadlines are in seconds of time.monotonic().

    - `next_offset` is None before the first read, which starts at the log start.
    - Reads raise Truncated and UnderstudyError. After KafkaUnavailable, read again.
    """

    def __init__(
        self,
        cluster: BrokerPool[Any],
        topic: str,
        *,
        doing: str = "",
        partition: int = 0,
        reply_bytes: int = REPLY_BYTES,
        caches_leader: bool = False,
    ) -> None:
        """`caches_leader`: look up the leader only after a failure, not before each read. A former
        leader that does not know of its successor then returns an old end."""
        self._cluster = cluster
        self._topic, self._partition = topic, partition
        self._doing = doing or f"read {topic}"
        self._reply_bytes = reply_bytes
        self._caches_leader = caches_leader
        self._view: TopicView | None = None
        # The leader epoch under which the log was compared with what was read, and its end known.
        self._confirmed: int | None = None
        self.topic_id = ""
        self.next_offset: int | None = None
        # The leader epoch of the last batch that was read; -1 if unknown.
        self.epoch = -1

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader of the last read; -1 before the first one."""
        return -1 if self._confirmed is None else self._confirmed

    def seek(self, topic_id: str, next_offset: int | None, epoch: int) -> None:
        """Continue at this offset. Without an offset, read any topic of this name from its
        start."""
        if (topic_id, next_offset, epoch) != (self.topic_id, self.next_offset, self.epoch):
            self.topic_id, self.next_offset, self.epoch = topic_id, next_offset, epoch
            self._confirmed = None

    def restart(self) -> None:
        """Read again from the start."""
        self.seek("", None, -1)
        self._view = None

    def read_all(self, deadline: float, *, with_outcome: bool) -> Iterator[LogBatch]:
        """Every batch up to the high watermark, without waiting for open transactions.

        `with_outcome`: report aborted transactions as far as they have ended.
        """
        isolation = READ_COMMITTED if with_outcome else READ_UNCOMMITTED
        wait_ms = 0
        with self._reset_leader_on_error():
            end = self._begin(deadline)
            while end is None or self._at < end or self._confirmed is None:
                before = self._at
                reply = self._fetch(deadline, isolation, wait_ms)
                end = reply.high_watermark if end is None else end
                self._require_end_at_least(end)
                yield from self._advance(reply)
                if self._at == before:
                    # At the last stable offset, or the leader does not serve the rest yet.
                    wait_ms = 0 if isolation == READ_COMMITTED else WAIT_MS
                    isolation = READ_UNCOMMITTED

    def read_committed(self, deadline: float, *, most: int | None = None) -> Iterator[LogBatch]:
        """Committed batches up to the high watermark, once each transaction below it has ended.

        So everything that was committed before the call is included. Raises RangeTooLong after
        `most` responses, OpenTransaction for a transaction that stays open.
        """
        wait_ms, replies = 0, 0
        began = time.monotonic()
        with self._reset_leader_on_error():
            end = self._begin(deadline)
            while end is None or self._at < end or self._confirmed is None:
                before = self._at
                if wait_ms and time.monotonic() + wait_ms / 1000 > deadline:
                    raise transaction_still_open(
                        self._cluster.alias, self._topic, round(deadline - began, 1)
                    )
                reply = self._fetch(deadline, READ_COMMITTED, wait_ms)
                end = reply.high_watermark if end is None else end
                self._require_end_at_least(end)
                for batch in self._advance(reply):
                    if not batch.is_aborted:
                        yield batch
                replies += 1
                if self._at >= reply.stable_offset:
                    wait_ms = WAIT_MS
                elif replies == most:
                    raise RangeTooLong
                elif self._at == before:
                    raise self._error(Code.OFFSET_NOT_AVAILABLE)

    @contextlib.contextmanager
    def _reset_leader_on_error(self) -> Iterator[None]:
        """After a failure another broker may be the leader."""
        try:
            yield
        except (UnderstudyError, Truncated):
            self._view = None
            raise

    @property
    def _at(self) -> int:
        assert self.next_offset is not None  # noqa: S101 - set when a read begins
        return self.next_offset

    def _advance(self, reply: _Reply) -> Iterator[LogBatch]:
        for batch in reply.batches:
            yield batch
            self.next_offset, self.epoch = batch.next_offset, batch.leader_epoch
        self._confirmed = self._leader.epoch

    def _require_end_at_least(self, end: int) -> None:
        if self._at > end:
            raise OutOfRange

    # -- where the log is, and where it ends

    @property
    def _leader(self) -> Leader:
        assert self._view is not None  # noqa: S101 - described when a read begins
        return self._view.leaders[self._partition]

    def _begin(self, deadline: float) -> int | None:
        """The end of the log; None if the first response is to return it."""
        if self._view is None or not self._caches_leader:
            self._view = self._describe(deadline)
        topic_id = id_text(self._view.topic_id)
        if self.topic_id not in ("", topic_id):
            raise Recreated
        self.topic_id = topic_id
        if self.next_offset is None:
            self.next_offset = self._offset(EARLIEST, deadline)
        if self._confirmed == self._leader.epoch:
            return None
        end = self._offset(LATEST, deadline)
        self._require_end_at_least(end)
        if self.epoch < 0 and self._at == end:
            # Nothing was read that this leader could contradict.
            self._confirmed = self._leader.epoch
        else:
            self._confirmed = None
        return end

    @property
    def _topic_uuid(self) -> UUID:
        assert self._view is not None  # noqa: S101 - described when a read begins
        return UUID(bytes=self._view.topic_id)

    def _describe(self, deadline: float) -> TopicView:
        view = describe_topics(self._cluster, [self._topic], deadline)[self._topic]
        leader = view.leaders.get(self._partition)
        if view.error or leader is None or leader.node < 0:
            raise self._error(view.error or Code.LEADER_NOT_AVAILABLE)
        return view

    def _offset(self, at: int, deadline: float) -> int:
        tp = (self._topic, self._partition)
        found = list_offsets(self._cluster, [(*tp, self._leader)], at=at, deadline=deadline)
        if found[tp].error:
            raise self._error(found[tp].error)
        return found[tp].offset

    # -- Fetch

    def _fetch(self, deadline: float, isolation: int, wait_ms: int) -> _Reply:
        if time.monotonic() > deadline:
            raise self._error(Code.REQUEST_TIMED_OUT)
        until = min(deadline, time.monotonic() + _REQUEST_S) + wait_ms / 1000
        newest = TOPIC_ID_VERSION - 1 if self._topic_uuid == UUID(int=0) else None
        connection = self._cluster.connection(self._leader.node, REQUESTS, deadline)
        try:
            answer = connection.call(self._request(isolation, wait_ms), until, newest=newest)
        except BaseException:
            self._cluster.discard(connection)
            raise
        # By name, a recreated topic would be read on: its id is looked up before each read.
        self._caches_leader &= (
            newest is None and connection.versions[FetchRequest.API_KEY][1] >= TOPIC_ID_VERSION
        )
        parts = [part for topic in answer.responses for part in topic.partitions]
        number = answer.error_code or (parts[0].error_code if parts else Code.UNKNOWN_SERVER_ERROR)
        if number == Code.OFFSET_OUT_OF_RANGE:
            raise OutOfRange
        if number:
            raise self._error(number)
        (part,) = parts
        if part.diverging_epoch is not None and part.diverging_epoch.end_offset >= 0:
            raise Truncated
        return self._read(part, isolation)

    def _request(self, isolation: int, wait_ms: int) -> FetchRequest:
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=self._partition,
            fetch_offset=self._at,
            partition_max_bytes=self._reply_bytes,
            current_leader_epoch=self._leader.epoch,
            last_fetched_epoch=self.epoch,
        )
        topic = FetchRequest.FetchTopic(
            topic=self._topic, topic_id=self._topic_uuid, partitions=[partition]
        )
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self._reply_bytes,
            isolation_level=isolation,
            topics=[topic],
            forgotten_topics_data=[],
        )

    def _read(self, part: Any, isolation: int) -> _Reply:
        data = memoryview(bytes(part.records or b""))
        aborted = sorted(
            (row.first_offset, row.producer_id) for row in part.aborted_transactions or ()
        )
        decided = part.last_stable_offset if isolation == READ_COMMITTED else 0
        rows = self._batches(data, aborted, decided)
        return _Reply(part.high_watermark, part.last_stable_offset, list(rows))

    def _batches(
        self, data: memoryview, aborted: list[tuple[int, int]], decided: int
    ) -> Iterator[LogBatch]:
        """Batches from the position on. The broker lists the aborted transactions of this response.
        Transactions below offset `decided` have ended."""
        open_aborted: set[int] = set()
        while len(data) > _MAGIC_AT:
            size = int.from_bytes(data[_LENGTH], "big") + _LENGTH_END
            if size > len(data):
                return  # the last one of a response may be incomplete
            batch, data = data[:size], data[size:]
            self._verify(batch)
            header = _HEADER.unpack_from(batch)
            attributes, last, producer = header[5], header[0] + header[6], header[9]
            while aborted and aborted[0][0] <= last:
                open_aborted.add(aborted.pop(0)[1])
            is_control = bool(attributes & DefaultRecordBatch.CONTROL_MASK)
            is_transactional = bool(attributes & DefaultRecordBatch.TRANSACTIONAL_MASK)
            is_aborted = is_transactional and not is_control and producer in open_aborted
            if is_control:
                open_aborted.discard(producer)
            if last >= self._at:
                yield LogBatch(
                    last + 1, header[2], producer if is_transactional else -1,
                    is_control, last < decided or not is_transactional, is_aborted, batch,
                )  # fmt: skip

    def _verify(self, batch: memoryview) -> None:
        is_sound = batch[_MAGIC_AT] == _MAGIC and google_crc32c.value(
            bytes(batch[_CHECKED])
        ) == int.from_bytes(batch[_CRC], "big")
        if not is_sound:
            raise self._error(Code.CORRUPT_MESSAGE)

    def _error(self, number: int) -> UnderstudyError:
        error = error_of_number(number, where=self._cluster.alias, doing=self._doing)
        if number in RETRIABLE and not isinstance(error, KafkaUnavailable):
            return KafkaUnavailable(error.message, code=error.code)
        return error


def transaction_still_open(alias: str, topic: str, deadline_s: float) -> OpenTransaction:
    return OpenTransaction(
        f"Cluster {alias}: a transaction has been open in {topic} for {deadline_s:g} s, so later "
        "records cannot be read yet.",
        code="timeout",
    )

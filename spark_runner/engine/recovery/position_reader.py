"""Reads a flow's committed positions without waiting for other slices.

The topic has one partition for all slices, so its last stable offset stops while any slice has an
open transaction. Up to there the broker lists aborted transactions. After it, markers decide: the
reader has fenced the slices that matter, so each of their transactions has its marker. Transactions
without one belong to

- other slices, whose partitions are not ours, or
- the driver, that changes where one of our partitions continues; the reader waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import (
    OWNER_KEY,
    Position,
    position_key,
    read_owner,
    read_position,
)
from mirrors.kafka.error_codes import RETRY, Code, failure
from mirrors.kafka.protocol.list_offsets import EARLIEST, LATEST, list_offsets
from mirrors.kafka.protocol.metadata import Leader, TopicView
from mirrors.kafka.retry import retry_until_available
from spark_runner.engine.batches.header_scan import AbortedFilter
from spark_runner.kafka_protocol import fetch
from spark_runner.kafka_protocol.batch_header import CONTROL, TRANSACTIONAL, Header
from spark_runner.kafka_protocol.cluster import REQUEST_S, ClusterClient
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.records import batches, decode_batch, read_header
from spark_runner.kafka_protocol.single_fetch import fetch_once
from spark_runner.positions.topic import Place

_COMMIT = 1

Row = tuple[int, int, bytes, bytes | None]
"""(offset, leader epoch, key, value)"""


class _Truncated(Exception):
    """The topic was truncated below the offset that was read."""


class PositionReader:
    """Continues where it stopped: most of the topic before fencing, the rest after it."""

    def __init__(self, cluster: ClusterClient, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._at: int | None = None
        self._rows: dict[bytes, tuple[int, int, bytes | None]] = {}
        # Leader epoch of the last batch read, and of the leader that returned it (KIP-320).
        self._epoch = self._leader_epoch = -1
        # After the last stable offset: producer id -> its records without a marker.
        self._undecided: dict[int, list[Row]] = {}
        # The flow's owner, uncommitted records included: fences follow directly after them.
        self.owner: str | None = None

    def read(self, deadline: float, awaited: Iterable[Place] = ()) -> dict[Place, Position]:
        """All positions committed up to the current high watermark.

        Transactions with positions of `awaited` must have ended: after a fence they end soon.
        """
        keys = {position_key(*place) for place in awaited}
        retry_until_available(lambda: self._read(keys, deadline), deadline)
        return self._positions()

    def is_older_than_leader(self, row: Position) -> bool:
        """Whether the position is older than the current leader epoch.

        A leader that truncated the topic may have lost later ones.
        """
        known = self._rows.get(row.key)
        return known is not None and known[1] < self._leader_epoch

    def _read(self, keys: set[bytes], deadline: float) -> None:
        try:
            self._read_on(deadline)
        except _Truncated:
            self._at, self._epoch = None, -1
            self._rows, self._undecided = {}, {}
            raise KafkaUnavailable(
                f"Cluster {self._cluster.alias}: {self._topic} was truncated below the offset read "
                "(an unclean election). It is read again.",
                code="positions_cut",
            ) from None
        if any(row[2] in keys for rows in self._undecided.values() for row in rows):
            raise self._error(Code.CONCURRENT_TRANSACTIONS)

    def _read_on(self, deadline: float) -> None:
        view = self._cluster.describe([self._topic], deadline)[self._topic]
        leader = view.leaders.get(0)
        if view.error or leader is None or leader.node < 0:
            raise self._error(view.error or Code.LEADER_NOT_AVAILABLE)
        if self._at is None:
            self._at = self._offset(leader, EARLIEST, deadline)
        end = self._offset(leader, LATEST, deadline)
        if self._at > end:
            raise _Truncated
        has_moved = self._leader_epoch not in (-1, leader.epoch)
        link = self._cluster.link(leader.node, "positions", deadline)
        isolation = fetch.READ_COMMITTED
        try:
            while self._at < end or has_moved:
                has_moved = False
                if time.monotonic() > deadline:
                    raise self._error(Code.REQUEST_TIMED_OUT)
                if not self._step(link, view, isolation):
                    isolation = fetch.READ_UNCOMMITTED
            self._leader_epoch = leader.epoch
        except BaseException:
            self._cluster.drop(link)
            raise

    def _offset(self, leader: Leader, at: int, deadline: float) -> int:
        found = list_offsets(self._cluster, [(self._topic, 0, leader)], at=at, deadline=deadline)[
            self._topic, 0
        ]
        if found.error:
            raise self._error(found.error)
        return found.offset

    def _step(self, link: Connection, view: TopicView, isolation: int) -> bool:
        """One fetch. False when it returned nothing new."""
        assert self._at is not None  # noqa: S101 - set before the first step
        until = time.monotonic() + REQUEST_S
        topic = view.name, view.topic_id
        frame, reply = fetch_once(
            link,
            topic,
            0,
            self._at,
            until=until,
            isolation=isolation,
            leader_epoch=view.leaders[0].epoch,
            last_epoch=self._epoch,
        )
        number = reply.error or next((row.error for row in reply.partitions if row.error), 0)
        if number == Code.OFFSET_OUT_OF_RANGE or any(row.diverging for row in reply.partitions):
            raise _Truncated
        if number:
            raise self._error(number)
        before = self._at
        for row in reply.partitions:
            aborted = AbortedFilter(row.aborted)
            decided = row.stable_offset if isolation == fetch.READ_COMMITTED else 0
            for batch in batches(frame[row.start : row.stop]):
                self._take(batch, aborted, decided)
        return self._at > before

    def _take(self, batch: memoryview, aborted: AbortedFilter, decided: int) -> None:
        header = read_header(batch)
        after = header.last_offset + 1
        if self._at is None or after <= self._at:
            return
        self._at, self._epoch = after, header.leader_epoch
        if header.attributes & CONTROL:
            self._decide(header, batch, aborted)
            return
        if aborted.drops(header):
            return
        rows = [
            (record.offset, header.leader_epoch, record.key or b"", record.value)
            for record in decode_batch(batch)
        ]
        for _, _, key, value in rows:
            if key == OWNER_KEY and value is not None:
                self.owner = read_owner(value)
        if header.attributes & TRANSACTIONAL and after > decided:
            self._undecided.setdefault(header.producer_id, []).extend(rows)
        else:
            self._apply(rows)

    def _decide(self, header: Header, batch: memoryview, aborted: AbortedFilter) -> None:
        rows = self._undecided.pop(header.producer_id, [])
        for marker in decode_batch(batch):
            if int.from_bytes((marker.key or b"")[2:4], "big") == _COMMIT:
                self._apply(rows)
            else:
                aborted.ended(header)

    def _apply(self, rows: list[Row]) -> None:
        """Keep the highest offset of each key, as compaction does."""
        for offset, epoch, key, value in rows:
            known = self._rows.get(key)
            if known is None or known[0] < offset:
                self._rows[key] = (offset, epoch, value)

    def _positions(self) -> dict[Place, Position]:
        found: dict[Place, Position] = {}
        for key, (_, _, value) in self._rows.items():
            if value is None or b'"topic"' not in key:
                continue
            try:
                record = read_position(key, value)
            except MalformedRecord as error:
                raise KafkaRefused(
                    f"Cluster {self._cluster.alias}: {self._topic} holds a record that is not a "
                    f"position ({error}). Nothing but Understudy may write that topic.",
                    code="positions_damaged",
                ) from None
            if isinstance(record, Position):
                found[record.topic, record.partition] = record
        return found

    def _error(self, number: int) -> Exception:
        error = failure(number, where=self._cluster.alias, doing=f"read {self._topic}")
        if number in RETRY and not isinstance(error, KafkaUnavailable):
            return KafkaUnavailable(error.message, code=error.code)
        return error

"""Reads one topic of offset runs to its end, uncommitted records included.

An unclean election may truncate the topic below the offset that was read, and other runs may follow
there. A new reader would not find the lost runs, so they no longer count: the topic is read again
from its beginning.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import RETRY, Code, failure
from mirrors.kafka.protocol.list_offsets import EARLIEST, LATEST, list_offsets
from mirrors.kafka.protocol.metadata import Leader, TopicView
from mirrors.kafka.retry import RetryBackoff
from spark_runner.kafka_protocol import fetch
from spark_runner.kafka_protocol.batch_header import CONTROL, TRANSACTIONAL
from spark_runner.kafka_protocol.cluster import REQUEST_S, ClusterClient
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.records import batches, decode_batch, read_header
from spark_runner.kafka_protocol.single_fetch import fetch_once

Row = tuple[bytes, bytes | None, int]
"""(key, value, id of the producer of transactions, or -1)"""
log = logging.getLogger(__name__)


class _Truncated(Exception):
    """The topic was truncated below the offset that was read."""


class OffsetRunsReader:
    """Blocking. Returns each record once; after a call of `forget`, all of them again."""

    def __init__(self, cluster: ClusterClient, view: TopicView, forget: Callable[[], None]) -> None:
        self._cluster = cluster
        self._view = view
        self._forget = forget
        self._at: int | None = None
        # Leader epoch of the last batch read, and of the leader that confirmed it (KIP-320).
        self._epoch = self._found_by = -1

    @property
    def topic_id(self) -> bytes:
        return self._view.topic_id

    def read(self, deadline: float) -> Iterator[Row]:
        """All records up to the current end."""
        backoff = RetryBackoff(deadline)
        while True:
            try:
                yield from self._read(deadline)
            except KafkaUnavailable:
                if not backoff.wait():
                    raise
                self._look_again(deadline)
            except _Truncated:
                log.warning(
                    "%s was truncated below the offset read; reading it again", self._view.name
                )
                self._at, self._epoch = None, -1
                self._forget()
            else:
                return

    def _look_again(self, deadline: float) -> None:
        view = self._cluster.describe([self._view.name], deadline)[self._view.name]
        if not view.error and view.topic_id == self.topic_id:
            self._view = view

    def _read(self, deadline: float) -> Iterator[Row]:
        leader = self._view.leaders.get(0)
        if leader is None or leader.node < 0:
            raise self._failure(Code.LEADER_NOT_AVAILABLE)
        if self._at is None:
            self._at = self._offset(leader, EARLIEST, deadline)
        end = self._offset(leader, LATEST, deadline)
        if self._at > end:
            raise _Truncated
        if not self._is_behind(end, leader):
            return
        link = self._cluster.link(leader.node, "runs", deadline)
        try:
            while self._is_behind(end, leader):
                if time.monotonic() > deadline:
                    raise self._failure(Code.REQUEST_TIMED_OUT)
                yield from self._step(link, leader)
        except KafkaUnavailable:
            self._cluster.drop(link)
            raise

    def _is_behind(self, end: int, leader: Leader) -> bool:
        """Whether there is more, or another leader, whose log may differ at the same length."""
        assert self._at is not None  # noqa: S101 - set before it is asked
        return self._at < end or (self._epoch >= 0 and leader.epoch != self._found_by)

    def _offset(self, leader: Leader, at: int, deadline: float) -> int:
        place = (self._view.name, 0)
        found = list_offsets(self._cluster, [(*place, leader)], at=at, deadline=deadline)[place]
        if found.error:
            raise self._failure(found.error)
        return found.offset

    def _step(self, link: Connection, leader: Leader) -> Iterator[Row]:
        assert self._at is not None  # noqa: S101 - set before the first step
        until = time.monotonic() + REQUEST_S
        topic = self._view.name, self.topic_id
        frame, reply = fetch_once(
            link,
            topic,
            0,
            self._at,
            until=until,
            isolation=fetch.READ_UNCOMMITTED,
            leader_epoch=leader.epoch,
            last_epoch=self._epoch,
        )
        number = reply.error or next((row.error for row in reply.partitions if row.error), 0)
        if number == Code.OFFSET_OUT_OF_RANGE or any(row.diverging for row in reply.partitions):
            raise _Truncated
        if number:
            raise self._failure(number)
        self._found_by = leader.epoch
        for row in reply.partitions:
            for batch in batches(frame[row.start : row.stop]):
                yield from self._rows(batch)

    def _rows(self, batch: memoryview) -> Iterator[Row]:
        header = read_header(batch)
        if self._at is None or header.last_offset < self._at:
            return
        if not header.attributes & CONTROL:
            producer = header.producer_id if header.attributes & TRANSACTIONAL else -1
            for record in decode_batch(batch):
                yield record.key or b"", record.value, producer
        self._at, self._epoch = header.last_offset + 1, header.leader_epoch

    def _failure(self, number: int) -> Exception:
        doing = f"read {self._view.name} for skip.replicated"
        error = failure(number, where=self._cluster.alias, doing=doing)
        if number in RETRY and not isinstance(error, KafkaUnavailable):
            return KafkaUnavailable(error.message, code=error.code)
        return error

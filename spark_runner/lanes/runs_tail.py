"""One topic of offset runs on a cluster, read on from where it was, uncommitted, to its end."""

from __future__ import annotations

import time
from collections.abc import Iterator

from mirrors.domain.errors import KafkaUnavailable
from spark_runner.wire import fetch
from spark_runner.wire.batch import CONTROL
from spark_runner.wire.cluster import REQUEST_S, ClusterClient, Leader, TopicView
from spark_runner.wire.codes import RETRY, Code, failure
from spark_runner.wire.connection import Connection
from spark_runner.wire.offsets import EARLIEST, LATEST, list_offsets
from spark_runner.wire.patience import Patience
from spark_runner.wire.peek import peek
from spark_runner.wire.records import batches, decode_batch, read_header

Row = tuple[bytes, bytes | None]


class RunsTail:
    """Blocking. What was handed out is not read again."""

    def __init__(self, cluster: ClusterClient, view: TopicView) -> None:
        self._cluster = cluster
        self._view = view
        self._at: int | None = None

    @property
    def topic_id(self) -> bytes:
        return self._view.topic_id

    def read(self, deadline: float) -> Iterator[Row]:
        """Everything up to the end of this moment."""
        patience = Patience(deadline)
        while True:
            try:
                yield from self._read(deadline)
            except KafkaUnavailable:
                if not patience.wait():
                    raise
                self._look_again(deadline)
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
        if self._at >= end:
            return
        link = self._cluster.link(leader.node, "runs", deadline)
        try:
            while self._at < end:
                if time.monotonic() > deadline:
                    raise self._failure(Code.REQUEST_TIMED_OUT)
                yield from self._step(link)
        except KafkaUnavailable:
            self._cluster.drop(link)
            raise

    def _offset(self, leader: Leader, at: int, deadline: float) -> int:
        place = (self._view.name, 0)
        found = list_offsets(self._cluster, [(*place, leader)], at=at, deadline=deadline)[place]
        if found.error:
            raise self._failure(found.error)
        return found.offset

    def _step(self, link: Connection) -> Iterator[Row]:
        assert self._at is not None  # noqa: S101 - set before the first step
        until = time.monotonic() + REQUEST_S
        topic = self._view.name, self.topic_id
        isolation = fetch.READ_UNCOMMITTED
        frame, reply = peek(link, topic, 0, self._at, until=until, isolation=isolation)
        number = reply.error or next((row.error for row in reply.partitions if row.error), 0)
        if number:
            raise self._failure(number)
        for row in reply.partitions:
            for batch in batches(frame[row.start : row.stop]):
                yield from self._rows(batch)

    def _rows(self, batch: memoryview) -> Iterator[Row]:
        header = read_header(batch)
        if self._at is None or header.last_offset < self._at:
            return
        if not header.attributes & CONTROL:
            for record in decode_batch(batch):
                yield record.key or b"", record.value
        self._at = header.last_offset + 1

    def _failure(self, number: int) -> Exception:
        doing = f"read {self._view.name} for skip.replicated"
        error = failure(number, where=self._cluster.alias, doing=doing)
        if number in RETRY and not isinstance(error, KafkaUnavailable):
            return KafkaUnavailable(error.message, code=error.code)
        return error

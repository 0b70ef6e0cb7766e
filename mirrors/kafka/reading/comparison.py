"""Reads ranges of many partitions of one cluster, part by part, to compare it with another.

It uses librdkafka, which copies nothing in the raw lane: so it is independent of the engine.
Nothing is committed, consumers are assigned manually, and the caller sets the pace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import confluent_kafka
from confluent_kafka import Consumer, Message

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.comparison.record_content import RecordContent, body_of
from mirrors.domain.errors import KafkaRefused, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.reading.samples import Window, as_bytes, messages

CLIENT_ID = "understudy-compare"


@dataclasses.dataclass
class RangePart:
    """Records of one partition, and the offset up to which all have been read."""

    records: list[RecordContent] = dataclasses.field(default_factory=list)
    reached: int = 0


class RangeReader:
    """Reads one cluster. `open`: partitions that are not read to their end yet."""

    def __init__(
        self,
        spec: ClusterSpec,
        windows: Mapping[TopicPartition, Window],
        *,
        committed: bool = True,
    ) -> None:
        self._spec = spec
        self._committed = committed
        self.open = {tp: row for tp, row in windows.items() if row[0] < row[1]}
        self.failed: dict[TopicPartition, UnderstudyError] = {}
        self.bytes = 0
        self._consumer: Consumer | None = None

    def __enter__(self) -> Self:
        if self.open:
            self._consumer = _consumer(self._spec, self._committed)
            self._consumer.assign(
                [confluent_kafka.TopicPartition(*tp, row[0]) for tp, row in self.open.items()]
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def read(self) -> dict[TopicPartition, RangePart]:
        """The next records of any partitions that have some; waits a tenth of a second for one."""
        found: dict[TopicPartition, RangePart] = {}
        if self._consumer is None or not self.open:
            return found
        refused: dict[TopicPartition, Any] = {}
        for tp, message, reached in messages(self._consumer, self._spec, refused):
            if tp not in self.open:
                continue
            if reached is None:
                self._close_partition(tp, refused[tp])
            else:
                self._take(tp, message, reached, found)
        return found

    def _take(
        self,
        tp: TopicPartition,
        message: Message | None,
        reached: int,
        found: dict[TopicPartition, RangePart],
    ) -> None:
        start, end = self.open[tp]
        part = found.setdefault(tp, RangePart())
        if message is not None and start <= reached - 1 < end:
            try:
                part.records.append(self._record(message))
            except UnicodeDecodeError:
                where = f"{tp[0]}-{tp[1]} offset {reached - 1}"
                words = f"{where} has a header name that is not UTF-8; this reader cannot read it."
                self._close_partition(tp, KafkaRefused(words, code="unreadable"))
                return
        at_end = message is None or reached >= end
        # An end that was told means: there is nothing more below the range's own end either.
        part.reached = end if at_end else reached
        if at_end:
            self._close_partition(tp)

    def _close_partition(self, tp: TopicPartition, error: UnderstudyError | None = None) -> None:
        self.open.pop(tp, None)
        if error is not None:
            self.failed[tp] = error
        if self._consumer is not None:
            self._consumer.incremental_unassign([confluent_kafka.TopicPartition(*tp)])

    def _record(self, message: Message) -> RecordContent:
        key, value = as_bytes(message.key()), as_bytes(message.value())
        pairs: Any = message.headers() or ()  # the client's stubs forget the lists of pairs
        headers = [(name.encode(), as_bytes(data)) for name, data in pairs]
        body = body_of(key, value, headers)
        self.bytes += len(body)
        return RecordContent(message.offset() or 0, body, message.timestamp()[1])


def _consumer(spec: ClusterSpec, committed: bool) -> Consumer:
    own = {
        "group.id": CLIENT_ID,  # never joined, never committed
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        # An offset that is not there any more is an answer, not a reason to begin elsewhere.
        "auto.offset.reset": "error",
        "check.crcs": True,
        "queued.max.messages.kbytes": 32768,
        "max.partition.fetch.bytes": 1048576,
        "fetch.wait.max.ms": 50,
        "allow.auto.create.topics": False,
    }
    return Consumer(client_config(spec, client_id=CLIENT_ID, role="consumer", extra=own))

"""The consumer of the record lane: no group, starts at the flow's positions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.kafka.connection.client_config import client_config, to_librdkafka
from mirrors.kafka.errors import RAISED, error_of_client
from spark_runner.engine.record_lane.progress import CopiedPartition
from spark_runner.ipc.messages import SliceWork

PARTITION_END = KafkaError._PARTITION_EOF
MAX_RECORDS = 1000

_DEFAULTS = {
    "isolation.level": "read_committed",
    "check.crcs": True,
    # An empty response shows the end after markers, so polls must not be long. Short ones cost idle
    # CPU.
    "fetch.wait.max.ms": 1000,
    "queued.max.messages.kbytes": 16_384,
}
_FIXED = {
    # librdkafka requires a group id. No group is joined and no offset is stored.
    "group.id": "understudy-reader",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # A missing position is a gap; skipping ahead would hide it.
    "auto.offset.reset": "error",
}


class RecordConsumer:
    """librdkafka's consumer of one slice, without a group. Raises UnderstudyError."""

    def __init__(self, work: SliceWork) -> None:
        self._alias = work.source.alias
        tuning = work.spec.settings.consumer
        own = {**_DEFAULTS, **to_librdkafka(tuning, "consumer"), **_FIXED}
        try:
            self._consumer = Consumer(
                client_config(
                    work.source, client_id="understudy-reader", role="consumer", extra=own
                )
            )
        except KafkaException as error:
            raise error_of_client(error, where=work.source.alias, doing="open a consumer") from None

    def assign(self, parts: Iterable[CopiedPartition]) -> None:
        """Read these partitions from their next offset; drop what was fetched before."""
        partitions = [
            confluent_kafka.TopicPartition(part.work.topic, part.work.partition, part.next)
            for part in parts
        ]
        with self._translated_errors():
            self._consumer.assign(partitions)

    def read(self, wait_s: float, most: int = MAX_RECORDS) -> list[Message]:
        """The first message as soon as it arrives, and those that are buffered after it."""
        with self._translated_errors():
            first = self._consumer.poll(wait_s)
            return [] if first is None else [first, *self._consumer.consume(most, 0)]

    def unassign(self, tp: TopicPartition) -> None:
        with self._translated_errors():
            self._consumer.incremental_unassign([confluent_kafka.TopicPartition(*tp)])

    def close(self) -> None:
        self._consumer.close()

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except RAISED as error:
            raise error_of_client(error, where=self._alias, doing="read records") from None

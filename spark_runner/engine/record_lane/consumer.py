"""The source end of the record lane: a consumer without a group, at positions of ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mirrors.kafka.connection.client_config import client_config, to_librdkafka
from mirrors.kafka.errors import RAISED, translate
from spark_runner.engine.record_lane.progress import CopiedPartition
from spark_runner.ipc.messages import SliceWork
from spark_runner.positions.topic import Place

END = KafkaError._PARTITION_EOF
AT_ONCE = 1000

_OURS_TO_CHOOSE = {
    "isolation.level": "read_committed",
    "check.crcs": True,
    # An empty answer is what shows the end behind markers, so the poll must not be long; a short
    # one costs idle CPU.
    "fetch.wait.max.ms": 1000,
    "queued.max.messages.kbytes": 16_384,
}
_FIXED = {
    # librdkafka wants a name; no group is joined and no offset is kept there.
    "group.id": "understudy-reader",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # A position that is gone is a gap, never a jump.
    "auto.offset.reset": "error",
}


class RecordConsumer:
    """librdkafka's consumer of one slice, in no group. What it raises is one of our errors."""

    def __init__(self, work: SliceWork) -> None:
        self._alias = work.source.alias
        tuning = work.spec.settings.consumer
        own = {**_OURS_TO_CHOOSE, **to_librdkafka(tuning, "consumer"), **_FIXED}
        try:
            self._consumer = Consumer(
                client_config(
                    work.source, client_id="understudy-reader", role="consumer", extra=own
                )
            )
        except KafkaException as error:
            raise translate(error, where=work.source.alias, doing="open a consumer") from None

    def assign(self, parts: Iterable[CopiedPartition]) -> None:
        """Read these partitions from where they stand, and forget what was fetched before."""
        places = [TopicPartition(part.work.topic, part.work.partition, part.next) for part in parts]
        with self._translated_errors():
            self._consumer.assign(places)

    def read(self, wait_s: float, most: int = AT_ONCE) -> list[Message]:
        """The first message as soon as it is there, and what lies ready behind it."""
        with self._translated_errors():
            first = self._consumer.poll(wait_s)
            return [] if first is None else [first, *self._consumer.consume(most, 0)]

    def leave(self, place: Place) -> None:
        with self._translated_errors():
            self._consumer.incremental_unassign([TopicPartition(*place)])

    def close(self) -> None:
        self._consumer.close()

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except RAISED as error:
            raise translate(error, where=self._alias, doing="read records") from None

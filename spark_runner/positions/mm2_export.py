"""MM2's copy of the positions: `mm2-offsets.<source>.internal`, in Kafka Connect's format."""

from __future__ import annotations

from confluent_kafka import KafkaError, Producer

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.internal_topics.records import ConnectOffset
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.errors import error_of_client
from mirrors.kafka.quotas import timeout_error
from spark_runner.positions.topic import CONNECT_PARTITIONS

WRITER_HEADER = ("writer", b"understudy")


class ConnectOffsetsWriter:
    """Writes MM2's copy of the positions, without a transaction and after the commit.

    Kafka Connect without exactly-once reads that topic uncommitted, so aborted records must not be
    there.
    """

    def __init__(self, spec: ClusterSpec, topic: str, source_alias: str) -> None:
        self._spec = spec
        self._topic = topic
        self._source_alias = source_alias
        self._written: dict[TopicPartition, int] = {}
        self._producer: Producer | None = None

    def connect(self) -> Producer:
        """The producer. It connects in the background, so call this early."""
        if self._producer is None:
            self._producer = Producer(
                client_config(
                    self._spec,
                    client_id="understudy-mm2-offsets",
                    role="producer",
                    extra={"enable.idempotence": True, "linger.ms": 5},
                )
            )
        return self._producer

    def write(self, positions: dict[TopicPartition, int], *, deadline_s: float) -> None:
        """Write the changes since the last call. Kafka Connect's format cannot express a position
        of 0."""
        changed = {
            tp: position
            for tp, position in positions.items()
            if position > 0 and self._written.get(tp) != position
        }
        if not changed:
            return
        producer = self.connect()
        failures: list[KafkaError] = []
        for (topic, partition), position in changed.items():
            row = ConnectOffset(
                cluster=self._source_alias, topic=topic, partition=partition, offset=position - 1
            )
            producer.produce(
                self._topic,
                row.value,
                row.key,
                row.kafka_partition(CONNECT_PARTITIONS),
                headers=[WRITER_HEADER],
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        left = producer.flush(deadline_s)
        if failures:
            raise error_of_client(failures[0], where=self._spec.alias, doing=f"write {self._topic}")
        if left:
            raise timeout_error(
                self._spec.alias,
                f"Cluster {self._spec.alias}: {self._topic} did not accept {left} of "
                f"{len(changed)} positions within {deadline_s:g} s.",
            )
        self._written |= changed

"""One Kafka cluster as its client libraries see it: what the judge writes, changes and counts."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    ShareConsumer,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from tests.judge.ledger import TopicPartition

PATIENCE_S = 30.0
_NO_COORDINATOR = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
_NO_CONSUMER_GROUP = {
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    KafkaError.INVALID_GROUP_ID,
}
EVERYONE = "User:ANONYMOUS"
# What confluent-kafka calls itself where nobody names it.
OWN_CLIENT_ID = "rdkafka"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class KafkaSide:
    """A cluster by its address. Every call has a deadline and raises what the broker answers."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.config: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin: AdminClient | None = None

    @property
    def admin(self) -> AdminClient:
        self._admin = self._admin or AdminClient(self.config)
        return self._admin

    def forget(self) -> None:
        """Its connections belong to a broker that was killed."""
        self._admin = None

    def topics(self) -> dict[str, int]:
        """Every topic that is visible, with its number of partitions."""
        found = self.admin.list_topics(timeout=PATIENCE_S).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def create(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        new = NewTopic(topic, partitions, 1, config=dict(config or {}))
        self.admin.create_topics([new], operation_timeout=PATIENCE_S)[topic].result(PATIENCE_S)

    def delete(self, *topics: str) -> None:
        for done in self.admin.delete_topics(list(topics), operation_timeout=PATIENCE_S).values():
            done.result(PATIENCE_S)

    def grow(self, topic: str, partitions: int) -> None:
        new = NewPartitions(topic, partitions)
        self.admin.create_partitions([new], operation_timeout=PATIENCE_S)[topic].result(PATIENCE_S)

    def delete_records(self, topic: str, partition: int, start: int) -> None:
        asked = [confluent_kafka.TopicPartition(topic, partition, start)]
        for done in self.admin.delete_records(asked).values():
            done.result(PATIENCE_S)

    def configure(self, topic: str, **values: str) -> None:
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in values.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        for done in self.admin.incremental_alter_configs([resource]).values():
            done.result(PATIENCE_S)

    def deny(
        self,
        topic: str,
        operation: AclOperation,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    ) -> None:
        """Only this: where one rule is, a broker would refuse everything else too."""
        rules = [
            _rule(topic, AclOperation.ALL, AclPermissionType.ALLOW, pattern),
            _rule(topic, operation, AclPermissionType.DENY, pattern),
        ]
        for rule in rules:
            for done in self.admin.create_acls([rule]).values():
                done.result(PATIENCE_S)

    def allow(self, topic: str) -> None:
        """Take away every rule that concerns the topic."""
        asked = AclBindingFilter(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.MATCH,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for done in self.admin.delete_acls([asked]).values():
            done.result(PATIENCE_S)

    def set_quota(self, key: str, value: float | None) -> None:
        """For every client id but the judge's own; None removes it."""
        entry = AlterClientQuotasRequest.EntryData
        change = entry.OpData(key=key, value=value or 0.0, remove=value is None)
        own = entry.OpData(key=key, value=float(1 << 40), remove=value is None)
        entries = [
            entry(entity=[entry.EntityData(entity_type="client-id", entity_name=name)], ops=[op])
            for name, op in ((None, change), (OWN_CLIENT_ID, own))
        ]
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap, client_id=OWN_CLIENT_ID)
        try:
            request = AlterClientQuotasRequest(entries=entries, validate_only=False)
            reply = client._manager.run(client._manager.send, request)
            assert not any(row.error_code for row in reply.entries), reply
        finally:
            client.close()

    def share(self, group: str, topic: str, seconds: float) -> bool:
        """Have a share group of that name, by a member that reads for a while.

        False if a group of another type has the name: brokers answer GROUP_ID_NOT_FOUND.
        """
        consumer = ShareConsumer({**self.config, "group.id": group})
        until = time.monotonic() + seconds
        try:
            consumer.subscribe([topic])
            while time.monotonic() < until:
                consumer.poll(0.3)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise
            return False
        finally:
            consumer.close()
        return True

    def begins(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        asked = {confluent_kafka.TopicPartition(*tp): OffsetSpec.earliest() for tp in partitions}
        answers = self.admin.list_offsets(asked, request_timeout=PATIENCE_S)
        return {(at.topic, at.partition): row.result().offset for at, row in answers.items()}

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """A broker that has just started is no coordinator for a while."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._commit(group, offsets)
                return
            except KafkaException as error:
                if error.args[0].code() not in _NO_COORDINATOR or time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def _commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        rows = [confluent_kafka.TopicPartition(*tp, offset) for tp, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, rows)]
        for done in self.admin.alter_consumer_group_offsets(asked).values():
            for row in done.result(PATIENCE_S).topic_partitions:
                if row.error:
                    raise KafkaException(row.error)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        asked = [ConsumerGroupTopicPartitions(group)]
        (answer,) = self.admin.list_consumer_group_offsets(asked).values()
        try:
            rows = answer.result(PATIENCE_S).topic_partitions
        except KafkaException as error:
            if error.args[0].code() in _NO_CONSUMER_GROUP:
                return {}
            raise
        return {(row.topic, row.partition): row.offset for row in rows if row.offset >= 0}

    def read(self, topics: Mapping[str, int]) -> dict[TopicPartition, list[tuple[int, str]]]:
        """Offset and value of every committed record of these topics (name -> partitions)."""
        partitions = [(name, number) for name, count in topics.items() for number in range(count)]
        found: dict[TopicPartition, list[tuple[int, str]]] = {tp: [] for tp in partitions}
        if partitions:
            with self._reader() as consumer:
                consumer.assign([confluent_kafka.TopicPartition(*tp, 0) for tp in partitions])
                self._read_to_the_ends(consumer, found)
        return found

    @contextlib.contextmanager
    def _reader(self) -> Iterator[Consumer]:
        config = {
            **self.config,
            "group.id": f"judge-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 20,
        }
        consumer = Consumer(config)
        try:
            yield consumer
        finally:
            consumer.close()

    @staticmethod
    def _read_to_the_ends(
        consumer: Consumer, found: dict[TopicPartition, list[tuple[int, str]]]
    ) -> None:
        open_ends = set(found)
        until = time.monotonic() + 2 * PATIENCE_S
        while open_ends:
            assert time.monotonic() < until, f"not read to their ends: {sorted(open_ends)[:5]}"
            for message in consumer.consume(1000, 0.2):
                place = message.topic(), message.partition()
                error = message.error()
                if error is None:
                    value = (message.value() or b"").partition(b" ")[0].decode(errors="replace")
                    found[place].append((message.offset(), value))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_ends.discard(place)
                elif not error.retriable():
                    raise KafkaException(error)


class Reader:
    """A live member of a group: it reads one topic and commits as it goes, until it is stopped.

    `began` is the offset of the first record that it read in each partition.
    """

    def __init__(self, side: KafkaSide, group: str, topic: str) -> None:
        self.topic = topic
        self.began: dict[TopicPartition, int] = {}
        self._stop = threading.Event()
        config = {
            **side.config,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "isolation.level": "read_committed",
        }
        self._consumer = Consumer(config)
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run, name=f"reader {group}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(200, 0.2):
                if message.error() is None:
                    self.began.setdefault((message.topic(), message.partition()), message.offset())
        self._consumer.close()


def _rule(
    topic: str,
    operation: AclOperation,
    permission: AclPermissionType,
    pattern: ResourcePatternType,
) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        pattern,
        EVERYONE,
        "*",
        operation,
        permission,
    )


class Writer:
    """Writes values and says at which offset each is. `bound` writes in transactions."""

    def __init__(self, side: KafkaSide, *, bound: bool = False) -> None:
        config = {**side.config, "linger.ms": 2, "message.timeout.ms": 20_000}
        if bound:
            config |= {
                "transactional.id": f"judge-{uuid.uuid4().hex}",
                "transaction.timeout.ms": 300_000,
            }
        self.producer = Producer(config)
        if bound:
            self.producer.init_transactions(PATIENCE_S)

    def write(self, rows: Sequence[tuple[TopicPartition, str]], padding: int = 0) -> list[int]:
        """The offset of each value, once all are acknowledged."""
        offsets = [-1] * len(rows)
        failed: list[str] = []

        def note(number: int, error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failed.append(str(error))
            else:
                offsets[number] = message.offset()

        for number, ((topic, partition), value) in enumerate(rows):
            self.producer.produce(
                topic,
                value.encode() + b" " + b"." * padding,
                partition=partition,
                on_delivery=lambda error, message, n=number: note(n, error, message),
            )
            self.producer.poll(0)
        left = self.producer.flush(PATIENCE_S)
        assert not left, f"{left} records were not acknowledged"
        assert not failed, failed[:3]
        return offsets

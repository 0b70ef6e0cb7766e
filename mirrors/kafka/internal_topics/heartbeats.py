"""Heartbeats of one cluster: a producer that stays open, and a consumer of the newest records."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from mirrors.domain.errors import KafkaRefused, UnderstudyError
from mirrors.domain.internal_topics.records import Heartbeat
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.sync.heartbeats import CONFIGS, TOPIC
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.kafka.connection.client_config import client_config, discard
from mirrors.kafka.errors import RAISED, error_of_client

CLIENT_ID = "understudy-heartbeats"
# How many of the newest offsets are read again: each direction beats into the same topic, and
# each commit of the flow takes an offset too.
TAIL = 200
_OFFSET_TAIL_BASE = -2000


def ensure_topic(spec: ClusterSpec, *, replication_factor: int, deadline_s: float) -> None:
    """Create the heartbeats topic as MM2 does, if missing. The replication factor is at most the
    number of brokers."""
    with Admin(spec) as admin:
        seen = admin.snapshot([TOPIC], now=0, deadline_s=deadline_s, with_configs=False)
        if TOPIC in seen.topics:
            return
        copies = min(replication_factor, max(1, seen.brokers))
        new = NewTopicSpec(
            name=TOPIC, partitions=1, replication_factor=copies, configs=dict(CONFIGS)
        )
        admin.create_topics([new], deadline_s=deadline_s).raise_first()


class HeartbeatProducer:
    """Writes heartbeats into one cluster. Keep it open: opening a producer costs more than
    writing."""

    def __init__(self, spec: ClusterSpec) -> None:
        # As MM2: a heartbeat written twice does no harm, and idempotence may need a right more.
        own = {"linger.ms": 0, "message.timeout.ms": 10_000, "acks": "all"}
        config = client_config(spec, client_id=CLIENT_ID, role="producer", extra=own)
        self.spec = spec
        try:
            self._producer = Producer(config)
        except RAISED as error:
            raise error_of_client(error, where=spec.alias, doing=f"write {TOPIC}") from None
        self._failed: dict[tuple[str, str], KafkaError] = {}

    def write(
        self, beats: Iterable[Heartbeat], *, deadline_s: float
    ) -> dict[tuple[str, str], UnderstudyError]:
        """Returns failed directions and the errors. The next call reports writes that are still
        pending."""
        doing = f"write {TOPIC}"
        try:
            for beat in beats:
                self._producer.produce(
                    TOPIC,
                    beat.value,
                    beat.key,
                    0,
                    timestamp=beat.timestamp,
                    on_delivery=self._note(beat),
                )
            self._producer.flush(deadline_s)
        except (*RAISED, BufferError) as error:
            raise error_of_client(error, where=self.spec.alias, doing=doing) from None
        failed, self._failed = self._failed, {}
        return {
            direction: error_of_client(error, where=self.spec.alias, doing=doing)
            for direction, error in failed.items()
        }

    def _note(self, beat: Heartbeat) -> Callable[[KafkaError | None, object], None]:
        def note(error: KafkaError | None, _: object) -> None:
            if error is not None:
                self._failed[beat.source, beat.target] = error

        return note

    def close(self) -> None:
        discard(self._producer)


class HeartbeatConsumer:
    """Reads the ends of one cluster's heartbeats topics. Stays open, but idle between two reads."""

    def __init__(self, spec: ClusterSpec) -> None:
        own = {
            "group.id": CLIENT_ID,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
        }
        config = client_config(spec, client_id=CLIENT_ID, role="consumer", extra=own)
        self._spec = spec
        try:
            self._consumer = Consumer(config)
        except RAISED as error:
            raise error_of_client(error, where=spec.alias, doing=f"read {TOPIC}") from None
        self.refusals: dict[str, str] = {}

    def assign(self, topics: Iterable[str]) -> None:
        """From now on, `poll` returns the newest records of these topics, and then later ones."""
        self.refusals.clear()
        tail = _OFFSET_TAIL_BASE - TAIL
        self._consumer.assign([TopicPartition(topic, 0, tail) for topic in sorted(set(topics))])

    def poll(self, *, wait_s: float) -> tuple[str, bytes | None, bytes | None] | None:
        """Topic, key and value of the next record; None if none arrives in time."""
        try:
            message = self._consumer.poll(wait_s)
        except RAISED as broken:
            raise error_of_client(broken, where=self._spec.alias, doing=f"read {TOPIC}") from None
        if message is None:
            return None
        if (error := message.error()) is not None:
            refusal = error_of_client(
                error, where=self._spec.alias, doing=f"read {message.topic()}"
            )
            # What is not there yet, or passes by itself, is no refusal.
            if isinstance(refusal, KafkaRefused) and refusal.code != "not_found":
                self.refusals[message.topic() or ""] = refusal.message
            return None
        return message.topic() or "", message.key(), message.value()

    def unassign(self) -> None:
        self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()

"""An application on secured clusters: a producer that may be refused, consumers of one group."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from mirrors.kafka.connection.client_config import client_config
from tests.groups.world import World
from tests.security.secured import SecuredBroker
from tests.security.test_least_privilege import limited
from tests.wire.world import Side


class Orders:
    """An application: a producer that may only write, and consumers of one group."""

    def __init__(self, world: World, source: SecuredBroker, topic: str, group: str) -> None:
        self.world, self.topic, self.group = world, topic, group
        self.acked: list[int] = []
        self.refused = 0
        self.consumed: list[int] = []
        self._next = 0
        config = client_config(limited(source, "source"), client_id="app", role="producer")
        self._producer = Producer({**config, "linger.ms": 0, "message.timeout.ms": 10_000})
        self._consumer: Consumer | None = None

    def produce(self) -> None:
        number, self._next = self._next, self._next + 1
        try:
            self._producer.produce(
                self.topic, key=b"k", value=b"%d" % number, partition=0, on_delivery=self._told
            )
        except KafkaException as refused:  # the client knows by then that it may not
            if refused.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            self.refused += 1
        self._producer.flush(10)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acked.append(int(message.value() or b""))
        else:
            assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error
            self.refused += 1

    def start_consumer(self, side: Side, topic: str) -> None:
        own = {"group.id": self.group, "enable.auto.commit": False, "session.timeout.ms": 6000}
        own |= {"auto.offset.reset": "error"}
        config = client_config(side.spec, client_id="app", role="consumer", extra=own)
        self._consumer = Consumer(config)
        self._consumer.subscribe([topic])

    def consume(self, at_most: int = 1000, seconds: float = 0.05) -> None:
        if self._consumer is None:
            return
        for message in self._consumer.consume(at_most, seconds):
            assert message.error() is None, message.error()
            self.consumed.append(int(message.value() or b""))
            self._consumer.commit(message, asynchronous=False)

    def stop_consumer(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

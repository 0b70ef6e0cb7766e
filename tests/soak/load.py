"""The load of the long run: steady, in transactions, and in bursts."""

from __future__ import annotations

import os
import threading
import time
import uuid

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

_BURST = 20


def create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)


def producer(bootstrap: str, **config: str) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 5, **config})


def write(bootstrap: str, topic: str, count: int, size: int, codec: str = "none") -> None:
    """`count` records of `size` random bytes, by the client's own choice of partition."""
    writer = producer(bootstrap, **{"compression.type": codec})
    for _ in range(count):
        writer.produce(topic, os.urandom(size))
        writer.poll(0)
    assert writer.flush(60) == 0


class Traffic(threading.Thread):
    """Plain records and transactions, some of them aborted; each value is when it was written.

    `key` tells who wrote; `a_second` counts records, those of aborted transactions included.
    """

    def __init__(
        self, bootstrap: str, topic: str, *, partitions: int, a_second: int, key: str
    ) -> None:
        super().__init__(name=f"traffic {topic}", daemon=True)
        name = f"soak-{uuid.uuid4().hex}"
        self._plain = producer(bootstrap)
        self._bound = producer(bootstrap, **{"transactional.id": name, "compression.type": "lz4"})
        self._topic, self._partitions, self._key = topic, partitions, key.encode()
        self._pause = _BURST / a_second
        self._ending = threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._bound.init_transactions(30)
            number = 0
            while not self._ending.wait(self._pause):
                self._write(number)
                number += 1
            assert self._plain.flush(30) == 0
        except (KafkaException, AssertionError) as error:
            self.error = error

    def _write(self, number: int) -> None:
        """Ten plain records and a transaction of ten."""
        self._bound.begin_transaction()
        for writer in (self._plain, self._bound):
            for at in range(_BURST // 2):
                writer.produce(
                    self._topic,
                    f"{time.time_ns() // 1_000_000}".encode().ljust(500),
                    self._key,
                    partition=(number + at) % self._partitions,
                )
            writer.poll(0)
        if number % 7:
            self._bound.commit_transaction(30)
        else:
            # Written and then aborted, not just never sent: aborted unsent, a writer on a busy
            # machine was once told INVALID_TXN_STATE, which ends it.
            assert self._bound.flush(30) == 0
            self._bound.abort_transaction(30)

    def end(self) -> None:
        self._ending.set()
        self.join(60)
        assert self.error is None, self.error

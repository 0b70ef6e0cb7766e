"""The demo's business traffic: producers on both clusters, payments in transactions, two groups.

Run as `python -m controlplane.demo.shop.traffic PRIMARY BACKUP`; SIGTERM ends it with nothing
open. It
dies of what it cannot get over (a fenced or fatal producer) and is started again by its supervisor.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from random import Random
from typing import NoReturn

from confluent_kafka import Consumer, KafkaException, Producer

from controlplane.demo.shop.clients import create_topics, lag_of, new_producer
from controlplane.demo.shop.events import (
    BACKUP,
    PAYMENTS,
    PRIMARY,
    Entry,
    Topic,
    business,
    payment,
    warehouse,
)

# Each tick costs a request for every partition it writes to.
TICK = 0.5
ORDERS_PER_SECOND = 12
HISTORY = 600
LAG_OF_ANALYTICS = 1_500
FAREWELL = 8.0


class Shop:
    """All that writes and reads, and the event that ends it."""

    def __init__(self, primary: str, backup: str) -> None:
        self.primary = primary
        self.backup = backup
        self.ended = threading.Event()
        self.fault: BaseException | None = None

    def run(self) -> int:
        fresh = create_topics(self.primary, PRIMARY)
        create_topics(self.backup, BACKUP)
        works: list[Callable[[], None]] = [
            lambda: self._write(self.primary, PRIMARY, business, HISTORY if fresh else 0),
            lambda: self._write(self.backup, BACKUP, warehouse, HISTORY // 4 if fresh else 0),
            self._pay,
            lambda: self._read("billing", ["orders", PAYMENTS], 0),
            lambda: self._read("analytics", ["orders", "clicks"], LAG_OF_ANALYTICS),
        ]
        threads = [
            threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in works
        ]
        for thread in threads:
            thread.start()
        self.ended.wait()
        until = time.monotonic() + FAREWELL
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        if self.fault is not None:
            print(f"traffic ended: {self.fault}", file=sys.stderr)
        return 1 if self.fault or any(thread.is_alive() for thread in threads) else 0

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (KafkaException, BufferError) as fault:
            self.fault = fault
            self.ended.set()

    def _write(
        self,
        cluster: str,
        topics: Iterable[Topic],
        make: Callable[[Random, int], Iterable[Entry]],
        history: int,
    ) -> None:
        chance = Random()
        producers = {topic.name: new_producer(cluster, topic.codec) for topic in topics}
        _send_all(producers, make(chance, history))
        while not self.ended.wait(TICK):
            # Busier and quieter again every two minutes, as shops are.
            level = 1 + 0.6 * math.sin(time.time() / 120 * math.tau)
            amount = ORDERS_PER_SECOND * TICK * level * (1.0 if make is business else 0.25)
            _send_all(producers, make(chance, int(amount) + (chance.random() < amount % 1)))
        for producer in producers.values():
            producer.flush(5)

    def _pay(self) -> None:
        chance = Random()
        settings = {"transactional.id": "payments-service", "transaction.timeout.ms": 10_000}
        while not self.ended.wait(0.5):
            producer = new_producer(self.primary, "lz4", settings)
            try:
                producer.init_transactions(10)
                while not self.ended.wait(chance.uniform(0.1, 0.5)):
                    self._settle(producer, chance)
            except KafkaException as fault:
                # A broker that died in the middle can leave a producer beyond repair; the next one
                # takes over its id, which aborts what was open.
                print(f"payments begin again: {fault}", file=sys.stderr)

    def _settle(self, producer: Producer, chance: Random) -> None:
        """One transaction: a few payments, sometimes slow, sometimes aborted."""
        producer.begin_transaction()
        for _ in range(chance.randint(1, 8)):
            entry = payment(chance)
            producer.produce(entry.topic, entry.value, entry.key, headers=list(entry.headers))
        if chance.random() < 0.03:  # the bank thinks about it
            self.ended.wait(2)
        if chance.random() < 0.15:
            producer.flush(5)  # written and then aborted, not just never sent
            producer.abort_transaction(10)
        else:
            producer.commit_transaction(10)

    def _read(self, group: str, topics: list[str], behind: int) -> None:
        """A consumer group that keeps up, or stays about `behind` records behind."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.primary,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "auto.commit.interval.ms": 1000,
                "log_level": 2,
            }
        )
        consumer.subscribe(topics)
        try:
            while not self.ended.is_set():
                if behind and lag_of(consumer) < behind:
                    consumer.poll(0)
                    self.ended.wait(1.0)
                    continue
                consumer.consume(20 if behind else 200, timeout=0.5)
                self.ended.wait(0.2 if behind else 0.1)
        finally:
            consumer.close()


def _send_all(producers: dict[str, Producer], entries: Iterable[Entry]) -> None:
    for entry in entries:
        if entry.topic != PAYMENTS:
            _send(producers[entry.topic], entry)
    for producer in producers.values():
        producer.poll(0)


def _send(producer: Producer, entry: Entry) -> None:
    while True:
        try:
            producer.produce(entry.topic, entry.value, entry.key, headers=list(entry.headers))
            return
        except BufferError:  # the broker is away; business waits
            producer.poll(0.5)


def main(primary: str, backup: str) -> NoReturn:
    shop = Shop(primary, backup)
    signal.signal(signal.SIGTERM, lambda *_: shop.ended.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = shop.run()
    # What a dead broker still holds in librdkafka must not hold us.
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:3])

"""Adverse traffic that the demo lacks: sizes, nulls, aborts, topics created and deleted."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Kept whatever the records' own timestamps say, and up to an hour ahead is what a broker takes.
KEEP = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
YEAR_1971 = 31_536_000_000
BIG = 900_000


class AdverseTraffic:
    """Writes to topics that start with `prefix` until stopped.

    Every record is acknowledged, unless a `storm` takes the source away now and then.
    """

    def __init__(
        self, bootstrap: str, prefix: str, *, seed: int, wide: int = 200, storm: bool = False
    ) -> None:
        self._storm = storm
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._random = random.Random(seed)
        self._wide = wide
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._producers = {codec: self._producer(codec) for codec in CODECS}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nasty", daemon=True)
        self.failure: BaseException | None = None
        self.deleted: set[str] = set()
        self.rounds = 0

    def name(self, rest: str) -> str:
        return f"{self._prefix}.{rest}"

    def start(self) -> AdverseTraffic:
        for codec in CODECS:
            self._create(self.name(codec), 6)
        self._create(self.name("aborts"), 3)
        self._create(self.name("grows"), 2)
        self._create(self.name("wide"), self._wide)
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(120)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._round()
            except (KafkaException, AssertionError) as error:
                # In a storm the source itself goes away; what it took is what must cross.
                if not self._storm:
                    self.failure = error
                    return
                time.sleep(1)
            self.rounds += 1

    def _round(self) -> None:
        for codec in CODECS:
            self._plain(self.name(codec), codec, 6, 40)
        self._plain(self.name("wide"), "lz4", self._wide, 60)
        self._transactions()
        if self.rounds % 8 == 2:
            self._come_and_go(self.rounds)
        if self.rounds == 5:
            self._wait(self._admin.create_partitions([NewPartitions(self.name("grows"), 5)]))
        self._plain(self.name("grows"), "none", 2 if self.rounds < 7 else 5, 10)
        for producer in self._producers.values():
            assert producer.flush(90) == 0
        # A storm goes on for minutes and is to leave the machine something to recover with.
        time.sleep(1.0 if self._storm else 0.05)

    def _come_and_go(self, number: int) -> None:
        """A topic appears and is filled at once; another one is filled and deleted."""
        born = self.name(f"born-{number}")
        self._create(born, 3)
        self._plain(born, "zstd", 3, 30)
        gone = self.name(f"gone-{number}")
        self._create(gone, 2)
        self._plain(gone, "gzip", 2, 30)
        assert self._producers["gzip"].flush(90) == 0
        self.deleted.add(gone)
        self._wait(self._admin.delete_topics([gone]))

    def _transactions(self) -> None:
        """Committed and aborted ones by one producer, aborted data already on the broker."""
        producer = self._producer("lz4", f"{self._prefix}.txn-{self.rounds}")
        producer.init_transactions(60)
        for number in range(4):
            producer.begin_transaction()
            for _ in range(8):
                self._send(producer, self.name("aborts"), 3)
            assert producer.flush(60) == 0
            if number % 2:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)

    def _plain(self, topic: str, codec: str, partitions: int, count: int) -> None:
        for _ in range(count):
            self._send(self._producers[codec], topic, partitions)

    def _send(self, producer: Producer, topic: str, partitions: int) -> None:
        record: dict[str, Any] = {
            "key": self._bytes((None, 0, 1, 16)),
            "value": self._bytes((None, 0, 1, 100, 100, 1_000, 1_000, 10_000)),
            "headers": self._headers(),
            "timestamp": self._timestamp(),
            "partition": self._random.randrange(partitions),
        }
        if self._random.random() < 0.004:
            record["value"] = self._random.randbytes(BIG)
        while True:
            try:
                producer.produce(topic, **record, on_delivery=self._delivered)
                break
            except BufferError:
                producer.poll(0.5)
            except KafkaException as error:
                # A partition that was just made is not in the client's picture yet.
                if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                    raise
                producer.list_topics(topic, timeout=20)
        producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        purged = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
        if error is not None and error.code() not in purged and not self._storm:
            self.failure = KafkaException(error)
            self._stopped.set()

    def _bytes(self, sizes: tuple[int | None, ...]) -> bytes | None:
        size = self._random.choice(sizes)
        return None if size is None else self._random.randbytes(size)

    def _headers(self) -> list[tuple[str, bytes | None]]:
        names = ("trace", "trace", "", "größe", "b")
        values = (None, b"", b"\xff\x00\xfe", b"plain")
        count = self._random.choice((0, 0, 1, 3))
        return [(self._random.choice(names), self._random.choice(values)) for _ in range(count)]

    def _timestamp(self) -> int:
        now = int(time.time() * 1000)
        return self._random.choice((YEAR_1971, now - 86_400_000, now, now, now + 3_500_000))

    def _producer(self, codec: str, transactional_id: str = "") -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
                "topic.metadata.refresh.fast.interval.ms": 50,
                **({"transactional.id": transactional_id} if transactional_id else {}),
            }
        )

    def _create(self, topic: str, partitions: int) -> None:
        self._wait(self._admin.create_topics([NewTopic(topic, partitions, 1, config=KEEP)]))

    @staticmethod
    def _wait(futures: dict[str, Future[None]]) -> None:
        for future in futures.values():
            future.result(60)

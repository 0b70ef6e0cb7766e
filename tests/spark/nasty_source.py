"""Traffic that leaves holes of every kind; each record has its number in a header.

Who writes knows from the broker's acknowledgements at which offset each number lies, and which of
them were aborted: also of records that compaction or a deletion took away before anybody read them.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mirrors.domain.cluster_snapshot import TopicPartition
from tests.spark.lab import Lab, unique

NUMBER = "n"
PAUSE_S = 0.05
CODECS = ("none", "lz4", "zstd")
# Few, so that compaction finds older records of each.
KEYS = 25


class AdverseProducer:
    """Writes to these topics (name: partitions, which may grow meanwhile) until it is stopped.

    `offsets`: by partition and offset the number that lies there or lay there; `keys`: of each
    number its key. `aborted` numbers no reader of committed records ever sees.
    """

    def __init__(self, lab: Lab, topics: dict[str, int], seed: int) -> None:
        self.topics = topics
        self.offsets: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
        self.keys: list[bytes] = []
        self.aborted: set[int] = set()
        self.failure: BaseException | None = None
        self._chance = random.Random(seed)
        self._plain = [lab.writer(**{"compression.type": codec}) for codec in CODECS]
        self._bound = [lab.writer(**{"transactional.id": unique("nasty")}) for _ in range(2)]
        self._open: dict[Producer, list[int]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nasty", daemon=True)

    def __enter__(self) -> AdverseProducer:
        for producer in self._bound:
            producer.init_transactions(30)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(90)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure

    @property
    def written(self) -> int:
        return sum(map(len, self.offsets.values()))

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._burst()
                time.sleep(PAUSE_S)
            for producer in list(self._open):
                self._end(producer)
            for producer in self._plain:
                assert producer.flush(60) == 0
        except (KafkaException, AssertionError) as error:
            self.failure = error

    def _burst(self) -> None:
        """One batch or a few, plain or in a transaction that may stay open over the next ones."""
        chance = self._chance
        bound = chance.random() < 0.4
        producer = chance.choice(self._bound if bound else self._plain)
        if bound and producer not in self._open:
            producer.begin_transaction()
            self._open[producer] = []
        for _ in range(chance.randrange(1, 4)):
            topic = chance.choice(list(self.topics))
            partition = chance.randrange(self.topics[topic])
            for _ in range(chance.randrange(1, 9)):
                number = self._send(producer, topic, partition)
                if bound:
                    self._open[producer].append(number)
        # A batch ends here, and what will be aborted lies in the log by then.
        assert producer.flush(60) == 0
        if bound and chance.random() < 0.6:
            self._end(producer)

    def _end(self, producer: Producer) -> None:
        numbers = self._open.pop(producer)
        if self._chance.random() < 0.5:
            producer.commit_transaction(60)
        else:
            self.aborted.update(numbers)
            producer.abort_transaction(60)

    def _send(self, producer: Producer, topic: str, partition: int) -> int:
        chance, number = self._chance, len(self.keys)
        gone = chance.random() < 0.1
        size = 20_000 if chance.random() < 0.01 else chance.randrange(300)
        self.keys.append(b"k%d" % chance.randrange(KEYS))
        row: dict[str, Any] = {
            "key": self.keys[-1],
            "value": None if gone else chance.randbytes(size),
            "headers": [(NUMBER, b"%d" % number)],
        }

        def acknowledged(error: KafkaError | None, message: Message) -> None:
            at = message.offset()
            if error is not None or at is None:
                self.failure = self.failure or AssertionError(f"{topic}-{partition}: {error}")
            else:
                self.offsets[topic, partition][at] = number

        until = time.monotonic() + 30
        while True:
            try:
                producer.produce(topic, partition=partition, on_delivery=acknowledged, **row)
            except KafkaException as error:
                # A partition that was just made is not in the client's picture yet.
                if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                    raise
                assert time.monotonic() < until, f"{topic}-{partition} is not there"
                producer.list_topics(topic, timeout=20)
                time.sleep(0.05)
            else:
                return number

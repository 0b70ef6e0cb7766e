"""A naive copy loop: consume a record, produce a record, with librdkafka.

Run it as `python plain_loop_program.py SOURCE TARGET CODEC PREFIX TOPIC...`. It keeps partition,
key, value, headers and timestamp; on SIGTERM it flushes all consumed records.
"""

from __future__ import annotations

import signal
import sys
import threading

from confluent_kafka import Consumer, Message, Producer, TopicPartition

CONSUMER = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.min.bytes": 1,
    "fetch.max.bytes": 52_428_800,
    "max.partition.fetch.bytes": 4_194_304,
    "fetch.queue.backoff.ms": 50,
}
PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 50,
    "batch.size": 524_288,
    "message.max.bytes": 10_485_760,
    "queue.buffering.max.messages": 50_000,
    "queue.buffering.max.kbytes": 262_144,
}
_BATCH = 2_000
_COMMIT_EVERY = 200


def main(source: str, target: str, codec: str, prefix: str, topics: list[str]) -> int:
    """Copy until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    consumer = Consumer(
        {"bootstrap.servers": source, "group.id": f"{prefix}-loop", "log_level": 0, **CONSUMER}
    )
    producer = Producer(
        {"bootstrap.servers": target, "compression.type": codec, "log_level": 0, **PRODUCER}
    )
    known = consumer.list_topics(timeout=20).topics
    consumer.assign(
        [TopicPartition(topic, number, 0) for topic in topics for number in known[topic].partitions]
    )
    rounds = 0
    while not ended.is_set():
        # A small patience keeps the latency down when there is little to copy.
        for message in consumer.consume(_BATCH, timeout=0.005):
            if (error := message.error()) is not None:
                raise SystemExit(error.str())
            _copy(producer, prefix, message)
        producer.poll(0)
        rounds += 1
        if rounds % _COMMIT_EVERY == 0:
            consumer.commit(asynchronous=True)
    left = producer.flush(30)
    consumer.close()
    return 1 if left else 0


def _copy(producer: Producer, prefix: str, message: Message) -> None:
    while True:
        try:
            producer.produce(
                prefix + (message.topic() or ""),
                value=message.value(),
                key=message.key(),
                partition=message.partition() or 0,
                timestamp=message.timestamp()[1],
                headers=message.headers(),
            )
        except BufferError:
            producer.poll(0.05)
        else:
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:]))

"""Steady traffic and who measures it: an open-loop producer, and consumers that note the delay.

Run by path as programs of their own, so that no measuring disturbs another:

    python live.py produce BOOTSTRAP TOPIC PARTITIONS CODEC RECORD_BYTES RATE SECONDS
    python live.py consume BOOTSTRAP TOPIC PARTITIONS OUTPUT

A record carries the moment at which it was meant to be sent, whether or not the producer kept up:
a late send counts as delay. All clocks are this machine's monotonic one.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from array import array
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

_TICK_S = 0.001
_LEAD_S = 0.05
_STAMP = 8


def produce(
    bootstrap: str,
    topic: str,
    partitions: int,
    codec: str,
    record_bytes: int,
    rate: float,
    seconds: float,
) -> None:
    """Send `rate` records a second for so long, each at its own moment, and say how many."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
        }
    )
    producer.list_topics(topic, timeout=20)
    dice = random.Random(2)
    half = (record_bytes - _STAMP) // 2
    fillers = [dice.randbytes(half).ljust(record_bytes - _STAMP, b"=") for _ in range(256)]
    total = int(rate * seconds)
    began = time.monotonic() + _LEAD_S
    sent = 0
    while sent < total:
        due = min(total, int((time.monotonic() - began) * rate) + 1)
        for number in range(sent, due):
            intended = int((began + number / rate) * 1e9)
            value = intended.to_bytes(_STAMP, "big") + fillers[number & 255]
            producer.produce(topic, value=value, partition=number % partitions)
        sent = max(sent, due)
        producer.poll(0)
        time.sleep(_TICK_S)
    left = producer.flush(30)
    sys.stdout.write(f"{total - left}\n")


def consume(bootstrap: str, topic: str, partitions: int, output: str) -> None:
    """Record (intended, received) times of every record; write them to a file on SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "understudy-bench-live",  # never joined, never committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.min.bytes": 1,
            "log_level": 0,
        }
    )
    parts = []
    for number in range(partitions):
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)
        parts.append(TopicPartition(topic, number, end))
    consumer.assign(parts)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    noted = array("q")
    while not ended.is_set():
        message = consumer.poll(0.1)
        if message is None or message.error() is not None:
            continue
        received = time.monotonic_ns()
        noted.append(int.from_bytes((message.value() or b"")[:_STAMP], "big"))
        noted.append(received)
    Path(output).write_bytes(noted.tobytes())
    consumer.close()


def main(arguments: list[str]) -> None:
    mode, *rest = arguments
    if mode == "produce":
        bootstrap, topic, partitions, codec, record_bytes, rate, seconds = rest
        produce(
            bootstrap,
            topic,
            int(partitions),
            codec,
            int(record_bytes),
            float(rate),
            float(seconds),
        )
    else:
        bootstrap, topic, partitions, output = rest
        consume(bootstrap, topic, int(partitions), output)


if __name__ == "__main__":
    main(sys.argv[1:])

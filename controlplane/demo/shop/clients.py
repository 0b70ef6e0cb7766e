"""The shop's way to its clusters: topics that wait for a broker, producers, a group's lag."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from controlplane.demo.shop.events import Topic

T = TypeVar("T")

_PATIENCE = 60.0


def new_producer(cluster: str, codec: str, more: Mapping[str, object] | None = None) -> Producer:
    return Producer(
        {
            "bootstrap.servers": cluster,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 50,
            "message.max.bytes": 2_000_000,
            "queue.buffering.max.kbytes": 16_384,
            "statistics.interval.ms": 0,
            "log_level": 2,
            **(more or {}),
        }
    )


def lag_of(consumer: Consumer) -> int:
    lag = 0
    assigned = consumer.assignment()
    for tp, now in zip(assigned, consumer.position(assigned), strict=True):
        bounds = consumer.get_watermark_offsets(TopicPartition(tp.topic, tp.partition), cached=True)
        if bounds is not None and bounds[1] > 0:
            lag += bounds[1] - max(now.offset, 0)
    return lag


def create_topics(cluster: str, topics: Iterable[Topic]) -> bool:
    """Create what is missing; whether anything was."""
    admin = AdminClient({"bootstrap.servers": cluster, "log_level": 2})
    present = _patiently(lambda: admin.list_topics(timeout=5)).topics
    missing = [
        NewTopic(topic.name, topic.partitions, 1, config=dict(topic.config))
        for topic in topics
        if topic.name not in present
    ]
    if missing:
        for future in admin.create_topics(missing, request_timeout=20).values():
            _created(future)
    return bool(missing)


def _created(future: Future[None]) -> None:
    try:
        future.result(30)
    except KafkaException as fault:
        if fault.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _patiently(act: Callable[[], T]) -> T:
    """Repeat what the broker's absence interrupted; everything else is for the caller."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return act()
        except KafkaException as fault:
            error = fault.args[0]
            if time.monotonic() > until or error.fatal() or not _passing(error):
                raise
            time.sleep(0.5)


def _passing(error: KafkaError) -> bool:
    return error.retriable() or error.code() in {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
    }

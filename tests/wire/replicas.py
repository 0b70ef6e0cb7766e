"""Waits on real brokers for a leader or for in-sync replicas."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException

from mirrors.kafka.admin.topics import Admin


def partition_of(admin: Admin, topic: str) -> Any:
    return admin.client.list_topics(topic, timeout=20).topics[topic].partitions[0]


def wait_for(look: Callable[[], Any], what: str) -> None:
    until = time.monotonic() + 90
    while time.monotonic() < until:
        with contextlib.suppress(KafkaException):
            if look():
                return
        time.sleep(0.3)
    raise AssertionError(what)

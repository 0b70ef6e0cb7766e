"""A consumer of confluent-kafka commits offsets of its group."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

PATIENCE_S = 30.0


def commit(consumer: Consumer, offsets: Sequence[TopicPartition]) -> None:
    """A broker whose coordinator still loads its groups is asked again."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            consumer.commit(offsets=list(offsets), asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            assert time.monotonic() < until
            time.sleep(0.2)
        else:
            return

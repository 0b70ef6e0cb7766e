"""The partitions of a writer's last transaction, which must end in all of them before the next.

Aborting the next one would otherwise abort committed records in a partition that lacks its marker.
"""

from __future__ import annotations

import contextlib
import time

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.producers.cluster import ProducerBrokers
from mirrors.kafka.producers.hanging_transactions import wait_until_ended


class PendingMarkers:
    """Partitions in which a transaction of this id may still be open."""

    def __init__(self, spec: ClusterSpec, transactional_id: str) -> None:
        self._spec = spec
        self._id = transactional_id
        self._partitions: set[TopicPartition] = set()

    def add(self, tp: TopicPartition) -> None:
        self._partitions.add(tp)

    def clear(self) -> None:
        """The id was fenced, which ended its transactions."""
        self._partitions.clear()

    def wait_until_ended(self, *, deadline_s: float) -> None:
        """Wait for the markers.

        Raises KafkaUnavailable if some are omitted, or are not written in time. The partitions then
        stay, and the next call checks them again.
        """
        if not self._partitions:
            return
        deadline = time.monotonic() + deadline_s
        with contextlib.closing(ProducerBrokers(self._spec)) as brokers:
            brokers.open(deadline)
            wait_until_ended(brokers, self._id, self._partitions, brokers.find_leaders, deadline)
        self._partitions.clear()

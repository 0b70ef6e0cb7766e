"""The partitions of a writer's last transaction, which has to end in all of them before the next.

To abort the next one would abort what was committed in a partition that lacks its marker.
"""

from __future__ import annotations

import contextlib
import time

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.producers.cluster import ProducerBrokers
from mirrors.kafka.producers.hanging_transactions import wait_until_ended


class PendingMarkers:
    """The partitions in which a transaction of this id may still be open."""

    def __init__(self, spec: ClusterSpec, transactional_id: str) -> None:
        self._spec = spec
        self._id = transactional_id
        self._partitions: set[TopicPartition] = set()

    def add(self, tp: TopicPartition) -> None:
        self._partitions.add(tp)

    def clear(self) -> None:
        """The id was taken over: what hung was ended by that."""
        self._partitions.clear()

    def wait_until_ended(self, *, deadline_s: float) -> None:
        """Waits for the markers. Raises KafkaUnavailable when some are left out, or do not come in
        time; the partitions stay then, and are looked at again the next time."""
        if not self._partitions:
            return
        deadline = time.monotonic() + deadline_s
        with contextlib.closing(ProducerBrokers(self._spec)) as brokers:
            brokers.open(deadline)
            wait_until_ended(brokers, self._id, self._partitions, brokers.find_leaders, deadline)
        self._partitions.clear()

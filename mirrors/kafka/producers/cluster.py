"""What the cold requests of a transactional producer need of a cluster.

The control plane's connections give it (`nodes`), and those of the copy engine
(`spark_runner.kafka_protocol.cluster`), which are open already.
"""

from __future__ import annotations

from typing import Any, Protocol, Unpack

from mirrors.kafka.protocol.brokers import Asked

Place = tuple[str, int]
"""(topic, partition)"""


class Cluster(Protocol):
    """For one thread. `brokers` and `features` are known once it was opened."""

    alias: str
    brokers: dict[int, tuple[str, int]]
    features: dict[str, int]

    def ask(self, request: Any, deadline: float, **how: Unpack[Asked]) -> Any:
        """The reply. `deadline` is a monotonic clock's.

        Raises KafkaUnavailable, for a given broker at once: another one may do its work by now.
        """

"""What the cold requests of a transactional producer need of a cluster.

Two kinds of connections give it: those of the control plane (`nodes`), which say what is wrong with
a cluster, and those of the copy engine (`spark_runner.wire.cluster`), which are open already.
"""

from __future__ import annotations

from typing import Any, Protocol

Place = tuple[str, int]
"""(topic, partition)"""

CONNECT_S = 10.0


class Cluster(Protocol):
    """For one thread. `brokers` and `features` are known once it was opened."""

    alias: str
    brokers: dict[int, tuple[str, int]]
    features: dict[str, int]

    def ask(
        self,
        request: Any,
        deadline: float,
        *,
        node: int | None = None,
        newest: int | None = None,
    ) -> Any:
        """The reply of this broker, or of any; `newest` is the highest version to speak.

        Raises KafkaUnavailable, for a given broker at once: another one may do its work by now.
        """

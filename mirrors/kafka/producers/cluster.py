"""What the cold requests of a transactional producer need of a cluster.

Two kinds of connections give it: those of the control plane (`nodes`), which say what is wrong with
a cluster, and those of the copy engine (`spark_runner.wire.cluster`), which are open already.
"""

from __future__ import annotations

from typing import Any, Protocol, TypedDict, Unpack

Place = tuple[str, int]
"""(topic, partition)"""

CONNECT_S = 10.0


class Asked(TypedDict, total=False):
    """`node` is the broker that is to answer, any without it; `newest` the highest version of the
    request to speak."""

    node: int | None
    newest: int | None


class Cluster(Protocol):
    """For one thread. `brokers` and `features` are known once it was opened."""

    alias: str
    brokers: dict[int, tuple[str, int]]
    features: dict[str, int]

    def ask(self, request: Any, deadline: float, **how: Unpack[Asked]) -> Any:
        """The reply. `deadline` is a monotonic clock's.

        Raises KafkaUnavailable, for a given broker at once: another one may do its work by now.
        """

"""The coordinator of a transactional id: found, and found again after it has moved."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.kafka.error_codes import Code
from mirrors.kafka.error_table import COORDINATOR_MOVING, error_of_number
from mirrors.kafka.producers.cluster import Cluster
from mirrors.kafka.producers.transaction_state import TransactionDescription, describe_transaction
from mirrors.kafka.protocol.broker_pool import CONNECT_S
from mirrors.kafka.retry import RetryBackoff

T = TypeVar("T")

_TRANSACTION = 1


class Coordinator:
    """The broker that coordinates the transactions of one id. For one thread."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._node: int | None = None

    def send_request(self, request: Any, deadline: float, *, newest: int | None = None) -> Any:
        """Send a request, and retry while the coordinator moves. Other error codes are left to the
        caller."""

        def attempt(node: int, until: float) -> Any:
            return self._cluster.send_request(request, until, node=node, newest=newest)

        return self._retry_at_coordinator(attempt, lambda reply: reply.error_code, deadline)

    def describe(self, deadline: float) -> TransactionDescription | None:
        """Describe the id; None if the coordinator cannot (an old version, or no permission).

        Raises KafkaUnavailable: a coordinator that does not respond now may know of a transaction.
        """

        def attempt(node: int, until: float) -> TransactionDescription:
            return describe_transaction(self._cluster, node, self._id, until)

        try:
            found = self._retry_at_coordinator(attempt, lambda found: found.error, deadline)
        except KafkaRefused:
            return None
        return None if found.error else found

    def _retry_at_coordinator(
        self, attempt: Callable[[int, float], T], error_of: Callable[[T], int], deadline: float
    ) -> T:
        backoff = RetryBackoff(deadline)
        while True:
            problem: KafkaUnavailable | None = None
            try:
                found = attempt(self._find(deadline), min(deadline, time.monotonic() + CONNECT_S))
                if error_of(found) not in COORDINATOR_MOVING:
                    return found
            except KafkaUnavailable as error:
                problem = error
            self.clear()
            if not backoff.wait():
                raise problem or error_of_number(
                    Code.COORDINATOR_NOT_AVAILABLE,
                    where=self._cluster.alias,
                    doing="reach the coordinator",
                )

    def clear(self) -> None:
        """The coordinator has moved: the next request looks it up."""
        self._node = None

    def _find(self, deadline: float) -> int:
        if self._node is not None:
            return self._node
        backoff = RetryBackoff(deadline)
        while True:
            request = FindCoordinatorRequest(
                key=self._id, key_type=_TRANSACTION, coordinator_keys=[self._id]
            )
            reply = self._cluster.send_request(request, deadline)
            found = reply.coordinators[0] if reply.coordinators else reply
            if not found.error_code:
                self._cluster.brokers[found.node_id] = (found.host, found.port)
                self._node = int(found.node_id)
                return self._node
            if found.error_code not in COORDINATOR_MOVING or not backoff.wait():
                raise error_of_number(
                    found.error_code,
                    where=self._cluster.alias,
                    doing=f"find the coordinator of {self._id}",
                )

"""Who keeps the state of a transactional id: found, asked, and found again when it has moved."""

from __future__ import annotations

import time
from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.kafka.codes import COORDINATOR_MOVING, Code, failure
from mirrors.kafka.patience import Patience
from mirrors.kafka.producers.cluster import CONNECT_S, Cluster
from mirrors.kafka.producers.described import Described, describe_transaction

_TRANSACTION = 1


class Coordinator:
    """The broker that coordinates the transactions of one id. For one thread."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._node: int | None = None

    def ask(self, request: Any, deadline: float, *, newest: int | None = None) -> Any:
        """Ask it, wherever it moves; other refusals are the caller's."""
        patience = Patience(deadline)
        while True:
            problem: KafkaUnavailable | None = None
            try:
                node = self._find(deadline)
                until = min(deadline, time.monotonic() + CONNECT_S)
                reply = self._cluster.ask(request, until, node=node, newest=newest)
                if reply.error_code not in COORDINATOR_MOVING:
                    return reply
            except KafkaUnavailable as error:
                problem = error
            self.forget()
            if not patience.wait():
                raise problem or failure(
                    Code.COORDINATOR_NOT_AVAILABLE,
                    where=self._cluster.alias,
                    doing="reach the coordinator",
                )

    def describe(self, deadline: float) -> Described | None:
        """What it knows of the id, once it can be asked; None when it does not tell."""
        patience = Patience(deadline)
        while True:
            try:
                node = self._find(deadline)
                until = min(deadline, time.monotonic() + CONNECT_S)
                found = describe_transaction(self._cluster, node, self._id, until)
                if found.error not in COORDINATOR_MOVING:
                    return None if found.error else found
            except KafkaRefused:
                return None
            except KafkaUnavailable:
                pass
            self.forget()
            if not patience.wait():
                return None

    def forget(self) -> None:
        """It has moved: look for it before the next question."""
        self._node = None

    def _find(self, deadline: float) -> int:
        if self._node is not None:
            return self._node
        patience = Patience(deadline)
        while True:
            request = FindCoordinatorRequest(
                key=self._id, key_type=_TRANSACTION, coordinator_keys=[self._id]
            )
            reply = self._cluster.ask(request, deadline)
            found = reply.coordinators[0] if reply.coordinators else reply
            if not found.error_code:
                self._cluster.brokers[found.node_id] = (found.host, found.port)
                self._node = int(found.node_id)
                return self._node
            if found.error_code not in COORDINATOR_MOVING or not patience.wait():
                raise failure(
                    found.error_code,
                    where=self._cluster.alias,
                    doing=f"find the coordinator of {self._id}",
                )

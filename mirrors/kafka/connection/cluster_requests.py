"""Requests of the control plane to one cluster: to any broker, to each, to a group coordinator."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self

from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.admin_client import Partial
from mirrors.kafka.connection.diagnosis import diagnose
from mirrors.kafka.error_codes import Code
from mirrors.kafka.error_table import COORDINATOR_MOVING, error_of_number
from mirrors.kafka.protocol.addresses import ADDRESS_HISTORY, ATTEMPT_S, Address
from mirrors.kafka.protocol.broker_pool import REQUESTS, BrokerPool
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.protocol.connection_errors import ConnectionFailed
from mirrors.kafka.quotas import timeout_error
from mirrors.kafka.security.connection_settings import ConnectionFacts

GROUP = 0
PAUSE_S = 0.2
# One step of a connection.
STEP_S = 10.0
# To one given broker: nobody can answer for it, and others wait behind it.
BROKER_S = 5.0
# One that failed so lately gets less time; not always, since it may only be distant.
FAILED_S = 30.0
# A broker that cost this much is not tried again for a while: what others can answer goes first.
SLOW_BROKER_S, RETRY_SLOW_BROKER_S = 1.0, 5.0


@dataclasses.dataclass
class Coordinators:
    """Groups by the node id of their coordinator, and the errors of groups without one."""

    groups: dict[int, list[str]] = dataclasses.field(default_factory=dict)
    failed: dict[str, UnderstudyError] = dataclasses.field(default_factory=dict)


class ClusterRequests(BrokerPool[BrokerConnection]):
    """One deadline for all requests. Errors are diagnosed, so they state the likely cause.

    - Each address is tried once: an address that does not respond is not waited for again.
    - Connections are opened on first use and closed together.
    """

    def __init__(self, spec: ClusterSpec, *, deadline_s: float, client_id: str) -> None:
        def new(facts: ConnectionFacts, address: Address) -> BrokerConnection:
            return BrokerConnection(facts, *address, client_id=client_id, step_s=STEP_S)

        super().__init__(spec, {}, new)
        self.deadline = time.monotonic() + deadline_s
        self._costly: dict[Address, tuple[float, ConnectionFailed]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def extend(self, deadline_s: float) -> None:
        """Set another deadline for the next requests, for callers that keep connections open."""
        self.deadline = time.monotonic() + deadline_s

    # -- one broker

    def send_to_broker(self, node: int, request: Any, *, newest: int | None = None) -> Any:
        """The response of one broker, from one attempt."""
        with self._diagnosed():
            return self._send_to_broker(node, request, self.deadline, newest=newest)

    def newest_version(self, node: int, request: Any) -> int:
        """The newest version of a request that this broker supports."""
        with self._diagnosed():
            return _newest_version(self._connect_to_node(node, self.deadline), request)

    def _connect_to_node(self, node: int, until: float) -> BrokerConnection:
        return self.connection(node, REQUESTS, until)

    def _send_to_broker(
        self, node: int, request: Any, until: float, *, newest: int | None = None
    ) -> Any:
        return self.call(self._connect_to_node(node, until), request, until, newest=newest)

    # -- any broker, and each one

    def send_to_any(self, request: Any, *, newest: int | None = None) -> Any:
        """The response of the first address that gives one."""
        with self._diagnosed():
            return self._send_to_any(request, self.deadline, newest=newest)

    def list_brokers(self) -> list[int]:
        """The node ids of the cluster's brokers."""
        self.update_from_metadata(self.send_to_any(MetadataRequest(topics=[]), newest=12))
        return list(self.brokers)

    def send_to_each(self, request: Any) -> Partial[int, Any]:
        """Return the response of every broker by node id, and the errors of the others.

        Brokers that responded last time go first, and a broker that does not respond leaves the
        others their time. Raises the first error if no broker responds.
        """
        result: Partial[int, Any] = Partial()
        nodes = {self.brokers[node]: node for node in self.list_brokers()}
        failures: dict[int, UnderstudyError] = {}
        ordered = ADDRESS_HISTORY.by_preference(self.alias, nodes)
        for others, address in zip(reversed(range(len(ordered))), ordered, strict=True):
            node, now = nodes[address], time.monotonic()
            until = now + (self.deadline - now) / (others + 1)
            try:
                result.done[node] = self._send_to_broker(node, request, until)
            except (ConnectionFailed, KafkaUnavailable) as error:
                failures[node] = error
        result.failed = {node: self.explain(error) for node, error in failures.items()}
        if not result.done:
            result.raise_first()
        return result

    # -- coordinators of groups

    def coordinators(self, groups: Iterable[str]) -> Coordinators:
        """Return the coordinator of each group; wait while one is being elected."""
        found = Coordinators()
        waiting = list(groups)
        while waiting:
            answers = self._find(waiting)
            again = [name for name, row in answers.items() if row.error_code in COORDINATOR_MOVING]
            for name in set(waiting) - set(again):
                row = answers[name]
                if row.error_code:
                    found.failed[name] = self._refused(row.error_code, f"find group {name}")
                else:
                    self.brokers[row.node_id] = (row.host, row.port)
                    found.groups.setdefault(row.node_id, []).append(name)
            waiting = again
            if waiting and time.monotonic() + PAUSE_S > self.deadline:
                number = Code.COORDINATOR_NOT_AVAILABLE
                for name in waiting:
                    found.failed[name] = self._refused(number, f"find group {name}")
                return found
            if waiting:
                time.sleep(PAUSE_S)
        return found

    def send_to_coordinator(
        self,
        node: int,
        request: Any,
        numbers: Callable[[Any], Iterable[int]],
        *,
        newest: int,
    ) -> Any:
        """Retry while the coordinator is still loading. `numbers` returns the error codes of a
        response."""
        while True:
            answer = self.send_to_broker(node, request, newest=newest)
            again = any(number in COORDINATOR_MOVING for number in numbers(answer))
            if not again or time.monotonic() + PAUSE_S > self.deadline:
                return answer
            time.sleep(PAUSE_S)

    def _find(self, groups: list[str]) -> dict[str, Any]:
        with self._diagnosed():
            return self.call_any(functools.partial(self._find_at, groups), self.deadline)

    def _find_at(
        self, groups: list[str], connection: BrokerConnection, until: float
    ) -> dict[str, Any]:
        request = FindCoordinatorRequest(key="", key_type=GROUP, coordinator_keys=groups)
        if _newest_version(connection, request) >= 4:
            answer = self.call(connection, request, until, newest=4)
            return {one.key: one for one in answer.coordinators}
        return {
            group: self.call(
                connection, FindCoordinatorRequest(key=group, key_type=GROUP), until, newest=3
            )
            for group in groups
        }

    # -- errors

    def _refused(self, number: int, doing: str) -> UnderstudyError:
        return error_of_number(number, where=self.alias, doing=doing)

    @contextlib.contextmanager
    def _diagnosed(self) -> Iterator[None]:
        try:
            yield
        except ConnectionFailed as failed:
            raise self.explain(failed) from None

    def explain(self, error: Exception) -> UnderstudyError:
        """The error with its likely cause, which may need a second connection to the address."""
        if not isinstance(error, ConnectionFailed):
            return super().explain(error)
        if error.diagnosis is None:
            error.diagnosis = diagnose(error, self.spec, self._facts, self.deadline)
        return error.diagnosis

    # -- connections

    def connect(self, address: Address, deadline: float) -> BrokerConnection:
        if time.monotonic() >= self.deadline:
            raise timeout_error(
                self.alias, f"Cluster {self.alias} did not respond to every request in time."
            )
        return super().connect(address, min(deadline, self.deadline))

    def connect_broker(self, address: Address, deadline: float) -> BrokerConnection:
        """Connect to a broker. A slow one is not tried again for a while."""
        if (costly := self._costly.get(address)) is not None:
            until, error = costly
            if time.monotonic() < until:
                raise error
        began = time.monotonic()
        try:
            has_failed = ADDRESS_HISTORY.has_failed(self.alias, address, FAILED_S)
            bound = began + (ATTEMPT_S if has_failed else BROKER_S)
            connection = self.connect(address, min(deadline, bound))
        except ConnectionFailed as failed:
            now = time.monotonic()
            ADDRESS_HISTORY.record_failure(self.alias, address)
            if now - began >= SLOW_BROKER_S:
                self._costly[address] = now + RETRY_SLOW_BROKER_S, failed
            raise
        ADDRESS_HISTORY.record_success(self.alias, address, time.monotonic() - began)
        self._costly.pop(address, None)
        return connection


def _newest_version(connection: BrokerConnection, request: Any) -> int:
    return connection.versions.get(request.API_KEY, (0, 0))[1]

"""The connections to one cluster: its brokers by id, and failover between its addresses."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypedDict, TypeVar, Unpack

from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol.addresses import (
    ADDRESS_HISTORY,
    Address,
    AllAddressesFailed,
    connect_any,
)
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.protocol.connection_errors import why_no_address
from mirrors.kafka.retry import RetryBackoff
from mirrors.kafka.security.connection_settings import ConnectionFacts, connection_facts

C = TypeVar("C", bound=BrokerConnection)
T = TypeVar("T")

CONNECT_S = 10.0
REQUEST_S = 30.0
# The purpose of connections for requests other than Fetch and Produce.
REQUESTS = "requests"
# The node of a connection to a bootstrap address: it need not be that of one broker.
_BOOTSTRAP = -1


class RequestOptions(TypedDict, total=False):
    """`node`: the broker that must respond; any broker without it. `newest`: the highest version of
    the request to use."""

    node: int | None
    newest: int | None


class BrokerPool(Generic[C]):
    """The connections to one cluster, by (broker, purpose): a waiting fetch must not delay a
    produce.

    - For one thread. Deadlines are in seconds of time.monotonic().
    - `properties` have Java's names. `new` creates a connection that is not connected yet.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        properties: Mapping[str, str],
        new: Callable[[ConnectionFacts, Address], C],
    ) -> None:
        self.request_s = _seconds(properties, "request.timeout.ms", REQUEST_S)
        self._connect_s = _seconds(properties, "socket.connection.setup.timeout.ms", CONNECT_S)
        self.spec = spec
        self.alias = spec.alias
        self.cluster_id = ""
        self.brokers: dict[int, Address] = {}
        self.features: dict[str, int] = {}
        self._facts: ConnectionFacts = connection_facts(spec)
        self._new = new
        self._connections: dict[tuple[int, str], C] = {}
        # How many connections broke so far: a broker may have died.
        self.broken = 0
        # Duration of the quickest request, in seconds.
        self.fastest_request_s = float("inf")

    def open(self, deadline: float) -> None:
        """Read the brokers from the first address that responds."""
        self.update_from_metadata(self.send_request(MetadataRequest(topics=[]), deadline))
        self.features = self._any_connection(deadline).features

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- connections

    def connect(self, address: Address, deadline: float) -> C:
        """Open a new connection to one address."""
        return self._new(self._facts, address).connect(deadline)

    def connect_broker(self, address: Address, deadline: float) -> C:
        """Open a new connection to a broker that no other broker can replace."""
        return self.connect(address, min(deadline, time.monotonic() + self._connect_s))

    def connection(self, node: int, purpose: str, deadline: float) -> C:
        """The connection to a broker for one purpose, opened on first use."""
        connection = self._connections.get((node, purpose))
        if connection is not None:
            return connection
        if node not in self.brokers:
            self.open(deadline)
        if node not in self.brokers:
            raise KafkaUnavailable(
                f"Cluster {self.alias}: broker {node} is not in the cluster at the moment. It may "
                "be restarting.",
                code="unreachable",
            )
        address = self.brokers[node]
        connection = self._connections.get((_BOOTSTRAP, REQUESTS))
        if (
            connection is None
            or purpose != REQUESTS
            or (connection.host, connection.port) != address
        ):
            connection = self.connect_broker(address, deadline)
        self._connections[node, purpose] = connection
        return connection

    def discard(self, connection: C) -> None:
        """Close a connection that failed. The next use opens another one."""
        connection.close()
        for key, kept in list(self._connections.items()):
            if kept is connection:
                del self._connections[key]

    def _any_connection(
        self, deadline: float, failures: Mapping[Address, Exception] | None = None
    ) -> C:
        """A connection to an address that did not fail: an open one, else a new one."""
        failed = {} if failures is None else failures
        for (_, purpose), connection in self._connections.items():
            if purpose == REQUESTS and (connection.host, connection.port) not in failed:
                return connection
        addresses = dict.fromkeys([*self.brokers.values(), *self._facts.bootstrap])
        try:
            connection = connect_any(
                self.alias,
                [address for address in addresses if address not in failed],
                self.connect,
                deadline=deadline,
                most_s=self._connect_s,
                failing=(KafkaUnavailable, KafkaRefused),
            )
        except AllAddressesFailed as none:
            raise self._no_address_error({**failed, **none.failures}) from None
        self._connections[_BOOTSTRAP, REQUESTS] = connection
        return connection

    def _no_address_error(self, failures: Mapping[Address, Exception]) -> UnderstudyError:
        if not failures:
            return KafkaUnavailable(f"Cluster {self.alias}: it has no address.")
        return why_no_address(failures, self.explain)

    def explain(self, error: Exception) -> UnderstudyError:
        """The error to raise for the failure of an address."""
        assert isinstance(error, UnderstudyError)  # noqa: S101 - nothing else is caught
        return error

    # -- requests

    def send_request(self, request: Any, deadline: float, **how: Unpack[RequestOptions]) -> Any:
        """Return the response to one request, retried on a new connection when one breaks.

        A given node that accepts no connection raises at once: another broker may be the leader by
        now.
        """
        node, newest, backoff = how.get("node"), how.get("newest"), RetryBackoff(deadline)
        while True:
            connection = None if node is None else self.connection(node, REQUESTS, deadline)
            try:
                if connection is None:
                    return self._send_to_any(request, deadline, newest=newest)
                return self.call(connection, request, deadline, newest=newest)
            except KafkaUnavailable:
                if not backoff.wait():
                    raise

    def _send_to_any(self, request: Any, deadline: float, *, newest: int | None = None) -> Any:
        """The response of the first address that responds."""

        def call(connection: C, until: float) -> Any:
            return self.call(connection, request, until, newest=newest)

        return self.call_any(call, deadline)

    def call_any(self, act: Callable[[C, float], T], deadline: float) -> T:
        """Return the result of `act(connection, until)` at the first address that works.

        Each address is tried once, open connections first. One that hangs leaves the others half of
        the time. If none works, raises the error of the attempt that got furthest.
        """
        failures: dict[Address, Exception] = {}
        while True:
            connection = self._any_connection(deadline, failures)
            until = deadline
            if len({*self.brokers.values(), *self._facts.bootstrap}) > 1:
                until = (time.monotonic() + deadline) / 2
            try:
                return act(connection, until)
            except KafkaUnavailable as error:
                failures[connection.host, connection.port] = error

    def call(
        self, connection: C, request: Any, deadline: float, *, newest: int | None = None
    ) -> Any:
        """Return the response on this connection, which is discarded if it breaks."""
        try:
            until = min(deadline, time.monotonic() + self.request_s)
            began = time.monotonic()
            reply = connection.call(request, until, newest=newest)
            self.fastest_request_s = min(self.fastest_request_s, time.monotonic() - began)
            return reply
        except KafkaUnavailable:
            ADDRESS_HISTORY.record_failure(self.alias, (connection.host, connection.port))
            self.broken += 1
            self.discard(connection)
            raise

    def update_from_metadata(self, reply: Any) -> Any:
        """Update the brokers from a metadata response. Connections to a moved broker are closed."""
        self.cluster_id = reply.cluster_id or ""
        brokers = {row.node_id: (row.host, row.port) for row in reply.brokers}
        for node, address in self.brokers.items():
            if brokers.get(node) != address:
                for (owner, _), connection in list(self._connections.items()):
                    if owner == node:
                        self.discard(connection)
        self.brokers = brokers
        return reply


def _seconds(properties: Mapping[str, str], name: str, usual: float) -> float:
    return int(properties[name]) / 1000 if name in properties else usual

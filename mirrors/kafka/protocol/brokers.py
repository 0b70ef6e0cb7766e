"""The connections to one cluster: its brokers by number, and any address that answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Generic, TypedDict, TypeVar, Unpack

from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol.addresses import BOOK, Address, NoAnswer, connect_any
from mirrors.kafka.protocol.checked_connection import ClientConnection
from mirrors.kafka.retry import RetryBackoff
from mirrors.kafka.security.connection_settings import ConnectionFacts, connection_facts

C = TypeVar("C", bound=ClientConnection)

CONNECT_S = 10.0
REQUEST_S = 30.0


class Asked(TypedDict, total=False):
    """`node` is the broker that is to answer, any without it; `newest` the highest version of the
    request to speak."""

    node: int | None
    newest: int | None


class ClusterConnections(Generic[C]):
    """Connections are kept by (broker, purpose): a fetch that waits must not hold up a produce.

    For one thread. `said` are properties in Java's names.
    """

    def __init__(self, spec: ClusterSpec, said: Mapping[str, str]) -> None:
        self.request_s = _seconds(said, "request.timeout.ms", REQUEST_S)
        self._connect_s = _seconds(said, "socket.connection.setup.timeout.ms", CONNECT_S)
        self.spec = spec
        self.alias = spec.alias
        self.cluster_id = ""
        self.brokers: dict[int, Address] = {}
        self.features: dict[str, int] = {}
        self._facts: ConnectionFacts = connection_facts(spec)
        self._links: dict[tuple[int, str], C] = {}
        # How many connections broke so far: a broker may have died.
        self.broken = 0

    def connect(self, address: Address, deadline: float, node: int = -1) -> C:
        """A new connection to one address."""
        raise NotImplementedError

    def open(self, deadline: float) -> None:
        """Learn the brokers from the first bootstrap address that answers."""
        self.learn(self.ask(MetadataRequest(topics=[]), deadline))
        self.features = self._any(deadline).features

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    # -- connections

    def link(self, node: int, purpose: str, deadline: float) -> C:
        """The connection to a broker for one purpose, opened if need be."""
        link = self._links.get((node, purpose))
        if link is not None:
            return link
        if node not in self.brokers:
            self.open(deadline)
        if node not in self.brokers:
            raise KafkaUnavailable(
                f"Cluster {self.alias}: broker {node} is not in the cluster at the moment. It may "
                "be restarting.",
                code="unreachable",
            )
        until = min(deadline, time.monotonic() + self._connect_s)
        link = self.connect(self.brokers[node], until, node)
        self._links[node, purpose] = link
        return link

    def drop(self, link: C) -> None:
        """Close a connection that failed; `link` opens another one."""
        link.close()
        for key, kept in list(self._links.items()):
            if kept is link:
                del self._links[key]

    def _any(self, deadline: float) -> C:
        """Some broker, for questions that every broker can answer."""
        for (_, purpose), link in self._links.items():
            if purpose == "ask":
                return link
        addresses = [*self.brokers.values(), *self._facts.bootstrap]
        try:
            link = connect_any(
                self.alias,
                addresses,
                self.connect,
                deadline=deadline,
                most_s=self._connect_s,
                failing=(KafkaUnavailable, KafkaRefused),
            )
        except NoAnswer as none:
            raise self._unanswered(none.failures) from None
        # A bootstrap address need not be that of one broker, so this link has no node.
        self._links[-1, "ask"] = link
        return link

    def _unanswered(self, failures: dict[Address, Exception]) -> Exception:
        """A refusal says more than silence; else what the last attempt found."""
        refused = [error for error in failures.values() if isinstance(error, KafkaRefused)]
        none = KafkaUnavailable(f"Cluster {self.alias}: it has no address.")
        return [none, *failures.values(), *refused][-1]

    def ask(self, request: Any, deadline: float, **how: Unpack[Asked]) -> Any:
        """One cold request, asked again on a new connection when one breaks.

        A given broker that takes none is the caller's matter, at once: another one may lead by now.
        """
        node, backoff = how.get("node"), RetryBackoff(deadline)
        while True:
            link = None
            try:
                link = self._any(deadline) if node is None else self.link(node, "ask", deadline)
                until = min(deadline, time.monotonic() + self.request_s)
                if node is None and len(self.brokers) > 1:
                    # Others can answer it too: a broker that hangs leaves them half the time.
                    until = min(until, (time.monotonic() + deadline) / 2)
                return link.call(request, until, newest=how.get("newest"))
            except KafkaUnavailable:
                if link is not None:
                    BOOK.failed(self.alias, (link.host, link.port))
                    self.broken += 1
                    self.drop(link)
                elif node is not None:
                    raise
                if not backoff.wait():
                    raise

    def learn(self, reply: Any) -> Any:
        """Where the brokers are from now on, as a reply with metadata says."""
        self.cluster_id = reply.cluster_id or ""
        brokers = {row.node_id: (row.host, row.port) for row in reply.brokers}
        for node, address in self.brokers.items():
            if brokers.get(node) != address:
                for (owner, _), link in list(self._links.items()):
                    if owner == node:
                        self.drop(link)
        self.brokers = brokers
        return reply


def _seconds(said: Mapping[str, str], name: str, usual: float) -> float:
    return int(said[name]) / 1000 if name in said else usual

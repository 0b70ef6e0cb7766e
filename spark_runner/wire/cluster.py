"""One cluster as one task sees it: brokers, leaders, topic ids, connections."""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.patience import Patience
from mirrors.kafka.producers.cluster import CONNECT_S, Asked
from mirrors.kafka.protocol.addresses import BOOK, Address, NoAnswer, connect_any
from mirrors.kafka.security import connection_facts
from spark_runner.wire.connection import Connection
from spark_runner.wire.metadata import TopicView, views
from spark_runner.wire.stream import Buffers

REQUEST_S = 30.0
RECEIVE_S = 10.0  # once a reply has begun to come, the rest of it does
_EACH_S = 1.0  # for one broker of many


class ClusterClient:
    """Connections are kept by (broker, purpose): a fetch that waits must not hold up a produce."""

    def __init__(self, spec: ClusterSpec, tuning: dict[str, str] | None = None) -> None:
        said = ChainMap({} if tuning is None else tuning, spec.properties)
        self.request_s = _seconds(said, "request.timeout.ms", REQUEST_S)
        self._connect_s = _seconds(said, "socket.connection.setup.timeout.ms", CONNECT_S)
        self._buffers = Buffers(
            send=int(said.get("send.buffer.bytes", 0)),
            receive=int(said.get("receive.buffer.bytes", 0)),
        )
        self.spec = spec
        self.alias = spec.alias
        self.cluster_id = ""
        self.brokers: dict[int, tuple[str, int]] = {}
        self.features: dict[str, int] = {}
        self._facts = connection_facts(spec)
        self._links: dict[tuple[int, str], Connection] = {}
        # How many connections broke so far: a broker may have died.
        self.broken = 0

    def open(self, deadline: float) -> None:
        """Learn the brokers from the first bootstrap address that answers."""
        self.learn(self.ask(MetadataRequest(topics=[]), deadline))
        self.features = self._any(deadline).features

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    # -- connections

    def link(self, node: int, purpose: str, deadline: float) -> Connection:
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
        link = self._connect(self.brokers[node], until, node)
        self._links[node, purpose] = link
        return link

    def drop(self, link: Connection) -> None:
        """Close a connection that failed; `link` opens another one."""
        link.close()
        for key, kept in list(self._links.items()):
            if kept is link:
                del self._links[key]

    def _any(self, deadline: float) -> Connection:
        """Some broker, for questions that every broker can answer."""
        for (_, purpose), link in self._links.items():
            if purpose == "ask":
                return link
        addresses = [*self.brokers.values(), *self._facts.bootstrap]
        try:
            link = connect_any(
                self.alias,
                addresses,
                self._connect,
                deadline=deadline,
                most_s=self._connect_s,
                failing=(KafkaUnavailable, KafkaRefused),
            )
        except NoAnswer as none:
            raise self._unanswered(none.failures) from None
        # A bootstrap address need not be that of one broker, so this link has no node.
        self._links[-1, "ask"] = link
        return link

    def _connect(self, address: Address, until: float, node: int = -1) -> Connection:
        return Connection(self._facts, *address, deadline=until, node=node, buffers=self._buffers)

    def _unanswered(self, failures: dict[Address, Exception]) -> Exception:
        """A refusal says more than silence; else what the last attempt found."""
        refused = [error for error in failures.values() if isinstance(error, KafkaRefused)]
        none = KafkaUnavailable(f"Cluster {self.alias}: it has no address.")
        return [none, *failures.values(), *refused][-1]

    def ask(self, request: Any, deadline: float, **how: Unpack[Asked]) -> Any:
        """One cold request, asked again on a new connection when one breaks.

        A given broker that takes none is the caller's matter, at once: another one may lead by now.
        """
        node, patience = how.get("node"), Patience(deadline)
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
                if not patience.wait():
                    raise

    # -- metadata

    def describe(self, names: Iterable[str], deadline: float) -> dict[str, TopicView]:
        """Ids and leaders of these topics, as the cluster sees them now."""
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )
        return self.learn(self.ask(request, deadline))

    def describe_all(self, deadline: float) -> dict[str, TopicView]:
        """The same of every topic that we may see."""
        return self.learn(self.ask(_every_topic(), deadline))

    def describe_everywhere(self, deadline: float) -> tuple[dict[str, TopicView], bool]:
        """The same as any broker sees it: each learns of a new topic in its own time, and the one
        that serves it knows it. Who does not answer soon is left out; and whether nobody was."""
        found, is_all = self.describe_all(deadline), True
        for node in list(self.brokers):
            until, link = min(deadline, time.monotonic() + _EACH_S), None
            try:
                link = self.link(node, "ask", until)
                found |= self.learn(link.call(_every_topic(), until))
            except KafkaUnavailable:
                is_all = False
                if link is not None:
                    self.drop(link)
        return found, is_all

    def learn(self, reply: Any) -> dict[str, TopicView]:
        """Where the brokers are from now on, and the topics, as a reply with metadata says."""
        self.cluster_id = reply.cluster_id or ""
        brokers = {row.node_id: (row.host, row.port) for row in reply.brokers}
        for node, address in self.brokers.items():
            if brokers.get(node) != address:
                for (owner, _), link in list(self._links.items()):
                    if owner == node:
                        self.drop(link)
        self.brokers = brokers
        return views(reply)


def _every_topic() -> MetadataRequest:
    return MetadataRequest(topics=None, allow_auto_topic_creation=False)


def _seconds(said: Mapping[str, str], name: str, usual: float) -> float:
    return int(said[name]) / 1000 if name in said else usual

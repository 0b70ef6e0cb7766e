"""The brokers of a cluster by their numbers, for the control plane's transactional requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.cluster import Place
from mirrors.kafka.protocol.addresses import Address
from mirrors.kafka.protocol.brokers import ClusterConnections
from mirrors.kafka.protocol.checked_connection import ClientConnection

CLIENT_ID = "understudy-fence"


class Nodes(ClusterConnections[ClientConnection]):
    """A `Cluster` whose connections are opened when they are needed."""

    def __init__(self, spec: ClusterSpec) -> None:
        super().__init__(spec, spec.properties)

    def connect(self, address: Address, deadline: float, node: int = -1) -> ClientConnection:
        return ClientConnection(
            self._facts, *address, deadline=deadline, client_id=CLIENT_ID, node=node
        )

    def there(self, topics: Iterable[str], deadline: float) -> set[str]:
        """Those of these topics that exist."""
        rows = self._metadata(topics, deadline).topics
        return {row.name for row in rows if row.error_code != Code.UNKNOWN_TOPIC_OR_PARTITION}

    def leaders(self, places: Iterable[Place], deadline: float) -> Mapping[Place, int]:
        """Who leads these partitions, where anybody does."""
        wanted = set(places)
        rows = self._metadata({topic for topic, _ in wanted}, deadline).topics
        return {
            (row.name, part.partition_index): part.leader_id
            for row in rows
            for part in row.partitions
            if (row.name, part.partition_index) in wanted and part.leader_id >= 0
        }

    def _metadata(self, topics: Iterable[str], deadline: float) -> Any:
        named = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(topics)]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
        return self.learn(self.ask(request, deadline))

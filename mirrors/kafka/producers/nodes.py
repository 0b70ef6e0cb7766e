"""The brokers of a cluster by their numbers, for cold requests of the control plane."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.codes import Code
from mirrors.kafka.dialogues import Address, Dialogues
from mirrors.kafka.patience import Patience
from mirrors.kafka.producers.cluster import Asked, Place

CLIENT_ID = "understudy-fence"


class Nodes:
    """A `Cluster` over dialogues, which are opened when they are needed."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.alias = spec.alias
        self.brokers: dict[int, Address] = {}
        self.features: dict[str, int] = {}
        self._dialogues = Dialogues(spec, deadline_s=0, client_id=CLIENT_ID)

    def open(self, deadline: float) -> None:
        self._learn(self.ask(MetadataRequest(topics=[]), deadline))
        self.features = self._dialogues.features()

    def close(self) -> None:
        self._dialogues.close()

    def ask(self, request: Any, deadline: float, **how: Unpack[Asked]) -> Any:
        node, newest = how.get("node"), how.get("newest")
        at_most = 99 if newest is None else newest
        patience = Patience(deadline)
        while True:
            self._dialogues.give(deadline - time.monotonic())
            try:
                if node is None:
                    return self._dialogues.ask_any(request, at_most=at_most)
                return self._dialogues.ask(self._address(node), request, at_most=at_most)
            except KafkaUnavailable:
                if node is not None or not patience.wait():
                    raise

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
        return self._learn(self.ask(request, deadline))

    def _learn(self, answer: Any) -> Any:
        self.brokers |= {row.node_id: (row.host, row.port) for row in answer.brokers}
        return answer

    def _address(self, node: int) -> Address:
        if node not in self.brokers:
            raise KafkaUnavailable(
                f"Cluster {self.alias}: broker {node} is not in the cluster at the moment. It may "
                "be restarting.",
                code="unreachable",
            )
        return self.brokers[node]

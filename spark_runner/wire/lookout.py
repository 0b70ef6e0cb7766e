"""All topics of a cluster, watched: while nothing changes, a look costs one small exchange."""

from __future__ import annotations

from typing import Any

from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol.messages import Repeated
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.metadata import TopicView


class Lookout:
    """For one thread."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._cluster = ClusterClient(spec)
        self._question = Repeated(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        self._reply: Any = None
        # Of the last look; do not change it.
        self.views: dict[str, TopicView] = {}

    def topics(self, deadline: float) -> dict[str, TopicView]:
        """Every topic that we may see, with its id and leaders; do not change it.

        Raises KafkaUnavailable or KafkaRefused when the cluster does not answer in time.
        """
        reply = self._cluster.ask(self._question, deadline)
        if reply is not self._reply:
            self.views = self._cluster.learn(reply)
            self._reply = reply
        return self.views

    @property
    def cluster_id(self) -> str:
        return self._cluster.cluster_id

    @property
    def brokers(self) -> int:
        """How many brokers there were at the last look."""
        return len(self._cluster.brokers)

    def close(self) -> None:
        self._cluster.close()

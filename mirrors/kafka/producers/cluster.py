"""The cluster interface that a transactional producer's requests need, apart from Produce.

Two pools implement it: `ProducerBrokers` of the control plane, and the copy engine's
`spark_runner.kafka_protocol.cluster`, whose connections are open already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, Unpack

from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.error_codes import Code
from mirrors.kafka.protocol.addresses import Address
from mirrors.kafka.protocol.broker_pool import BrokerPool, RequestOptions
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.security.connection_settings import ConnectionFacts

CLIENT_ID = "understudy-fence"


class Cluster(Protocol):
    """For one thread. `brokers` and `features` are valid after it was opened."""

    alias: str
    brokers: dict[int, tuple[str, int]]
    features: dict[str, int]

    def send_request(self, request: Any, deadline: float, **how: Unpack[RequestOptions]) -> Any:
        """Return the response. `deadline` is in seconds of time.monotonic().

        Raises KafkaUnavailable. For a given node it raises at once: another broker may have its
        role by now.
        """


class ProducerBrokers(BrokerPool[BrokerConnection]):
    """A `Cluster` of the control plane. Its connections are opened on first use."""

    def __init__(self, spec: ClusterSpec) -> None:
        def new(facts: ConnectionFacts, address: Address) -> BrokerConnection:
            return BrokerConnection(facts, *address, client_id=CLIENT_ID)

        super().__init__(spec, spec.properties, new)

    def find_existing(self, topics: Iterable[str], deadline: float) -> set[str]:
        """Return those of these topics that exist."""
        rows = self._describe(topics, deadline).topics
        return {row.name for row in rows if row.error_code != Code.UNKNOWN_TOPIC_OR_PARTITION}

    def find_leaders(
        self, partitions: Iterable[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, int]:
        """Return the leaders of these partitions, without partitions that have none."""
        wanted = set(partitions)
        rows = self._describe({topic for topic, _ in wanted}, deadline).topics
        return {
            (row.name, part.partition_index): part.leader_id
            for row in rows
            for part in row.partitions
            if (row.name, part.partition_index) in wanted and part.leader_id >= 0
        }

    def _describe(self, topics: Iterable[str], deadline: float) -> Any:
        named = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(topics)]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
        return self.update_from_metadata(self.send_request(request, deadline))

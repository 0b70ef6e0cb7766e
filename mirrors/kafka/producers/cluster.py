"""What the requests of a transactional producer need of a cluster, apart from Produce.

The control plane's pool gives it (`ProducerBrokers`), and the copy engine's
(`spark_runner.kafka_protocol.cluster`), whose connections are open already.
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
    """For one thread. `brokers` and `features` are known once it was opened."""

    alias: str
    brokers: dict[int, tuple[str, int]]
    features: dict[str, int]

    def send_request(self, request: Any, deadline: float, **how: Unpack[RequestOptions]) -> Any:
        """The reply. `deadline` is a monotonic clock's.

        Raises KafkaUnavailable, for a given broker at once: another one may do its work by now.
        """


class ProducerBrokers(BrokerPool[BrokerConnection]):
    """A `Cluster` of the control plane, whose connections are opened when they are needed."""

    def __init__(self, spec: ClusterSpec) -> None:
        def new(facts: ConnectionFacts, address: Address) -> BrokerConnection:
            return BrokerConnection(facts, *address, client_id=CLIENT_ID)

        super().__init__(spec, spec.properties, new)

    def find_existing(self, topics: Iterable[str], deadline: float) -> set[str]:
        """Those of these topics that exist."""
        rows = self._describe(topics, deadline).topics
        return {row.name for row in rows if row.error_code != Code.UNKNOWN_TOPIC_OR_PARTITION}

    def find_leaders(
        self, partitions: Iterable[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, int]:
        """The leaders of these partitions; a partition without one is absent."""
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

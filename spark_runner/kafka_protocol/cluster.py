"""A cluster as one task sees it: brokers, leaders, topic ids, connections."""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Iterable
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol.addresses import Address
from mirrors.kafka.protocol.broker_pool import REQUEST_S, REQUESTS, BrokerPool
from mirrors.kafka.protocol.messages import RepeatedRequest
from mirrors.kafka.protocol.metadata import TopicView, describe_topics, views
from mirrors.kafka.security.connection_settings import ConnectionFacts
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.tcp_stream import Buffers

__all__ = ["RECEIVE_S", "REQUEST_S", "ClusterClient"]

RECEIVE_S = 10.0  # for the rest of a response, once it has begun to arrive
_ROUND_TRIPS = 4
_EACH_S = 1.0  # for one of several brokers


class ClusterClient(BrokerPool[Connection]):
    """Uses the engine's connections. `tuning` are properties of a producer or consumer."""

    def __init__(self, spec: ClusterSpec, tuning: dict[str, str] | None = None) -> None:
        properties = ChainMap({} if tuning is None else tuning, spec.properties)
        buffers = Buffers(
            send=int(properties.get("send.buffer.bytes", 0)),
            receive=int(properties.get("receive.buffer.bytes", 0)),
        )

        def new(facts: ConnectionFacts, address: Address) -> Connection:
            return Connection(facts, *address, buffers=buffers)

        super().__init__(spec, properties, new)

    # -- metadata

    def round_trip_s(self, far_s: float, deadline: float) -> float:
        """Seconds of the quickest request so far; 0 if the broker throttles.

        From `far_s` on, a few more are made: on a busy machine the first ones take longer.
        """
        for _ in range(_ROUND_TRIPS):
            if self.fastest_request_s < far_s:
                break
            reply = self.send_request(MetadataRequest(topics=[]), deadline)
            if reply.throttle_time_ms:
                return 0.0
            self.update_from_metadata(reply)
        return self.fastest_request_s

    def describe(self, names: Iterable[str], deadline: float) -> dict[str, TopicView]:
        """Ids and leaders of these topics, as the cluster reports them now."""
        return describe_topics(self, names, deadline)

    def describe_all(self, deadline: float) -> dict[str, TopicView]:
        """The same for every topic that the principal may describe."""
        return self.update_from_metadata(self.send_request(_every_topic(), deadline))

    def describe_everywhere(self, deadline: float) -> tuple[dict[str, TopicView], bool]:
        """The union of all brokers' views, and whether all brokers responded.

        Metadata of a new topic reaches brokers at different times, and its leader has it first.
        """
        found, is_all = self.describe_all(deadline), True
        for node in list(self.brokers):
            until, connection = min(deadline, time.monotonic() + _EACH_S), None
            try:
                connection = self.connection(node, REQUESTS, until)
                found |= self.update_from_metadata(connection.call(_every_topic(), until))
            except KafkaUnavailable:
                is_all = False
                if connection is not None:
                    self.discard(connection)
        return found, is_all

    def update_from_metadata(self, reply: Any) -> dict[str, TopicView]:
        """Update brokers from a metadata response, and return its topics."""
        return views(super().update_from_metadata(reply))


def _every_topic() -> MetadataRequest:
    return MetadataRequest(topics=None, allow_auto_topic_creation=False)


class MetadataPoller:
    """Polls the metadata of a cluster. For one thread."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._cluster = ClusterClient(spec)
        self._request = RepeatedRequest(_every_topic())
        self._reply: Any = None
        # Of the last poll. Do not modify.
        self.views: dict[str, TopicView] = {}

    def topics(self, deadline: float) -> dict[str, TopicView]:
        """All topics that the principal may describe, with ids and leaders. Do not modify.

        Raises KafkaUnavailable or KafkaRefused if the cluster does not respond in time.
        """
        reply = self._cluster.send_request(self._request, deadline)
        if reply is not self._reply:
            self.views = self._cluster.update_from_metadata(reply)
            self._reply = reply
        return self.views

    @property
    def cluster_id(self) -> str:
        return self._cluster.cluster_id

    @property
    def brokers(self) -> int:
        """The number of brokers at the last poll."""
        return len(self._cluster.brokers)

    def close(self) -> None:
        self._cluster.close()

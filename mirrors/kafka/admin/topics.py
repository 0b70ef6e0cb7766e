"""Reads a cluster's topics, ids, configs and offsets. `Admin` also changes topics.

Every call has a deadline in seconds. What fails for one topic is returned together with the results
of the others.
"""

from __future__ import annotations

import base64
import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from confluent_kafka import KafkaException, TopicCollection, Uuid
from confluent_kafka.admin._config import ConfigResource, ConfigSource
from confluent_kafka.admin._metadata import ClusterMetadata
from confluent_kafka.admin._resource import ResourceType

from mirrors.domain import cluster_snapshot as pictures
from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition, TopicState
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.partition_offsets import PartitionOffsets
from mirrors.kafka.admin.topic_changes import NewTopicSpec, TopicChanges
from mirrors.kafka.connection.admin_client import DEADLINE_S, Partial
from mirrors.kafka.errors import error_of_client
from mirrors.kafka.protocol.list_offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)

__all__ = ["DEADLINE_S", "Admin", "NewTopicSpec", "Partial", "snapshot"]

# "stable" is the last stable offset: the end for a reader of committed records.
OffsetQuery = Literal["earliest", "latest", "stable"] | int
CONFIGS_PER_REQUEST = 250


def kafka_uuid(uuid: Uuid) -> str:
    """Kafka's text form of an id: URL-safe base64 without padding (librdkafka's is not)."""
    mask = 2**64 - 1
    typed: Any = uuid  # the client's stubs leave its two methods out
    high = typed.get_most_significant_bits() & mask
    low = typed.get_least_significant_bits() & mask
    raw = high.to_bytes(8, "big") + low.to_bytes(8, "big")
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


class Admin(TopicChanges):
    """One cluster's admin connection. Keep it open for several calls."""

    def __init__(self, spec: ClusterSpec, *, client_id: str = "understudy-admin") -> None:
        super().__init__(spec, client_id=client_id)
        self._offsets = PartitionOffsets(spec, client_id=client_id)

    def close(self) -> None:
        self._offsets.close()
        super().close()

    def topic_names(self, *, deadline_s: float = DEADLINE_S) -> list[str]:
        """All topics that the principal may describe, including internal ones."""
        return sorted(self._listing(deadline_s).topics)

    def _listing(self, deadline_s: float) -> ClusterMetadata:
        """Of all topics and their partitions: megabytes on a cluster with many of them."""
        try:
            return self.client.list_topics(timeout=deadline_s)
        except KafkaException as error:
            raise error_of_client(error, where=self.spec.alias, doing="list topics") from None

    def snapshot(
        self,
        topics: Iterable[str] | None = None,
        *,
        now: int,
        deadline_s: float = DEADLINE_S,
        with_configs: bool = True,
    ) -> ClusterSnapshot:
        """Return a snapshot of these topics, or of all; `now` is milliseconds since the epoch.

        A topic that could not be described, or whose configs could not be read, is in `failed` with
        the reason. It must not be taken for a missing topic.
        """
        deadline = time.monotonic() + deadline_s
        if topics is None:
            listing = self._listing(deadline_s)
            cluster_id, brokers = listing.cluster_id, len(listing.brokers)
            names = sorted(listing.topics)
        else:
            cluster = self.describe_cluster(deadline_s=deadline_s)
            cluster_id, brokers = cluster.cluster_id, len(cluster.nodes)
            names = sorted(set(topics))
        found = self._describe(names, deadline)
        failed = {
            name: error.message for name, error in found.failed.items() if not _is_missing(error)
        }
        states = found.done
        if with_configs and states:
            configs = self.describe_configs(states, deadline_s=_left(deadline))
            states = {
                name: dataclasses.replace(state, configs=configs.done.get(name, {}))
                for name, state in states.items()
            }
            failed |= {name: error.message for name, error in configs.failed.items()}
        return ClusterSnapshot(
            taken_at=now,
            cluster_id=cluster_id or "",
            brokers=brokers,
            topics=states,
            failed=failed,
        )

    def undescribed(
        self, topics: Iterable[str], *, deadline_s: float = DEADLINE_S
    ) -> dict[str, UnderstudyError]:
        """Of these topics, those that cannot be described although they may exist.

        Kafka does not report whether a topic exists that the principal may not describe.
        """
        found = self._describe(sorted(set(topics)), time.monotonic() + deadline_s)
        return {name: error for name, error in found.failed.items() if not _is_missing(error)}

    def _describe(self, names: Sequence[str], deadline: float) -> Partial[str, TopicState]:
        if not names:
            return Partial()
        left = _left(deadline)
        return self.gather(
            self.client.describe_topics(TopicCollection(list(names)), request_timeout=left),
            doing=lambda name: f"describe topic {name}",
            deadline_s=left,
            fold=_topic_state,
        )

    def describe_configs(
        self, topics: Iterable[str], *, deadline_s: float = DEADLINE_S
    ) -> Partial[str, dict[str, pictures.ConfigEntry]]:
        names = sorted(topics)
        deadline = time.monotonic() + deadline_s
        result: Partial[str, dict[str, pictures.ConfigEntry]] = Partial()
        for start in range(0, len(names), CONFIGS_PER_REQUEST):
            chunk = names[start : start + CONFIGS_PER_REQUEST]
            left = _left(deadline)
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in chunk]
            futures = self.client.describe_configs(resources, request_timeout=left)
            part = self.gather(
                {resource.name: future for resource, future in futures.items()},
                doing=lambda name: f"read the settings of topic {name}",
                deadline_s=left,
                fold=_config_entries,
            )
            result.done |= part.done
            result.failed |= part.failed
        return result

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: OffsetQuery,
        *,
        deadline_s: float = DEADLINE_S,
    ) -> Partial[TopicPartition, int]:
        """Return offsets of many partitions, with one request per leader.

        An `int` is a timestamp in milliseconds. Its result is the first offset whose record is not
        older, or the end of the partition if there is none.
        """
        deadline = time.monotonic() + deadline_s
        level = READ_COMMITTED if at == "stable" else READ_UNCOMMITTED
        place = at if isinstance(at, int) else EARLIEST if at == "earliest" else LATEST
        result = self._offsets.read(partitions, place, level, deadline_s=deadline_s)
        later = [tp for tp, offset in result.done.items() if offset < 0]
        if later:
            ends = self._offsets.read(later, LATEST, level, deadline_s=_left(deadline))
            for tp in later:
                del result.done[tp]
            result.done |= ends.done
            result.failed |= ends.failed
        return result


def snapshot(
    spec: ClusterSpec,
    topics: Iterable[str] | None = None,
    *,
    now: int,
    deadline_s: float = DEADLINE_S,
    with_configs: bool = True,
) -> ClusterSnapshot:
    """Open a connection, take a snapshot, close it. For repeated snapshots, keep an `Admin`."""
    with Admin(spec) as admin:
        return admin.snapshot(topics, now=now, deadline_s=deadline_s, with_configs=with_configs)


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def _is_missing(error: UnderstudyError) -> bool:
    return error.code == "not_found"


def _topic_state(description: Any) -> TopicState:
    partitions = description.partitions
    topic_id = kafka_uuid(description.topic_id) if description.topic_id is not None else ""
    return TopicState(
        name=description.name,
        topic_id=topic_id,
        partitions=len(partitions),
        replication_factor=len(partitions[0].replicas) if partitions else 0,
    )


def _config_entries(answer: Mapping[str, Any]) -> dict[str, pictures.ConfigEntry]:
    return {
        name: pictures.ConfigEntry(
            value=entry.value,
            source=ConfigSource(int(entry.source)).name,
            read_only=entry.is_read_only,
            sensitive=entry.is_sensitive,
        )
        for name, entry in answer.items()
    }

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

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin._config import ConfigResource, ConfigSource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType

from mirrors.domain import cluster_snapshot as pictures
from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition, TopicState
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topic_changes import NewTopicSpec, TopicChanges
from mirrors.kafka.connection.admin_client import DEADLINE_S, Partial
from mirrors.kafka.error_codes import Code
from mirrors.kafka.error_table import error_of_number
from mirrors.kafka.errors import error_of_client

__all__ = ["DEADLINE_S", "Admin", "NewTopicSpec", "Partial", "snapshot"]

# "stable" is the last stable offset: the end for a reader of committed records.
OffsetQuery = Literal["earliest", "latest", "stable"] | int
CONFIGS_PER_REQUEST = 250
RETRY_S = 0.1
METADATA_WAIT_S = 3.0
# What a client with an old picture of the cluster says.
_STALE = {"moving", "not_found"}


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

    def topic_names(self, *, deadline_s: float = DEADLINE_S) -> list[str]:
        """All topics that the principal may describe, including internal ones."""
        try:
            listing = self.client.list_topics(timeout=deadline_s)
        except KafkaException as error:
            raise error_of_client(error, where=self.spec.alias, doing="list topics") from None
        return sorted(listing.topics)

    def snapshot(
        self,
        topics: Iterable[str] | None = None,
        *,
        now: int,
        deadline_s: float = DEADLINE_S,
        with_configs: bool = True,
    ) -> ClusterSnapshot:
        """Return a snapshot of these topics; `now` is milliseconds since the epoch.

        A topic that could not be described, or whose configs could not be read, is in `failed` with
        the reason. It must not be taken for a missing topic.
        """
        deadline = time.monotonic() + deadline_s
        try:
            listing = self.client.list_topics(timeout=deadline_s)
        except KafkaException as error:
            raise error_of_client(error, where=self.spec.alias, doing="list topics") from None
        names = sorted(listing.topics) if topics is None else sorted(set(topics))
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
            cluster_id=listing.cluster_id or "",
            brokers=len(listing.brokers),
            topics=states,
            failed=failed,
        )

    def count_brokers(self, *, deadline_s: float = DEADLINE_S) -> int:
        """The brokers that the cluster has now; 1 if it does not say."""
        try:
            found = self.client.describe_cluster(request_timeout=deadline_s).result(deadline_s)
        except (KafkaException, TimeoutError):
            return 1
        return max(1, len(found.nodes))

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
        result = self._list_offsets(list(partitions), at, deadline)
        self._retry_stale_leaders(result, at, deadline)
        later = [tp for tp, offset in result.done.items() if offset < 0]
        if later:
            ends = self.list_offsets(later, "latest", deadline_s=_left(deadline))
            for tp in later:
                del result.done[tp]
            result.done |= ends.done
            result.failed |= ends.failed
        return result

    def _retry_stale_leaders(
        self, result: Partial[TopicPartition, int], at: OffsetQuery, deadline: float
    ) -> None:
        """Refresh the metadata and retry: once, and for a while where a leader is just moving.

        A new leader is not available at once after a topic was created or a broker restarted.
        """
        patience = min(deadline, time.monotonic() + METADATA_WAIT_S)
        stale = [tp for tp, error in result.failed.items() if error.code in _STALE]
        while stale and (known := self._refresh_metadata(_left(deadline))) is not None:
            for tp in set(stale) - known:
                doing = f"list offsets of {tp[0]}-{tp[1]}"
                result.failed[tp] = error_of_number(
                    Code.UNKNOWN_TOPIC_OR_PARTITION, where=self.spec.alias, doing=doing
                )
            again = self._list_offsets([tp for tp in stale if tp in known], at, deadline)
            for tp in again.done:
                del result.failed[tp]
            result.done |= again.done
            result.failed |= again.failed
            stale = [tp for tp, error in again.failed.items() if error.code in _STALE]
            if time.monotonic() + RETRY_S >= patience:
                return
            time.sleep(RETRY_S if stale else 0)

    def _refresh_metadata(self, deadline_s: float) -> set[TopicPartition] | None:
        """Return the existing partitions, or None. `list_offsets` itself uses stale metadata.

        A full listing replaces the leaders that librdkafka caches. Its ListOffsets does not refresh
        them after FENCED_LEADER_EPOCH (librdkafka 4620), and never finds partitions that were added
        since.
        """
        try:
            topics = self.client.list_topics(timeout=deadline_s).topics
        except KafkaException:
            return None
        return {(name, number) for name, topic in topics.items() for number in topic.partitions}

    def _list_offsets(
        self, partitions: Sequence[TopicPartition], at: OffsetQuery, deadline: float
    ) -> Partial[TopicPartition, int]:
        wanted = {
            confluent_kafka.TopicPartition(topic, number): _offset_spec(at)
            for topic, number in partitions
        }
        if not wanted:
            return Partial()
        left = _left(deadline)
        level = IsolationLevel.READ_COMMITTED if at == "stable" else IsolationLevel.READ_UNCOMMITTED
        futures = self.client.list_offsets(wanted, isolation_level=level, request_timeout=left)
        return self.gather(
            {(tp.topic, tp.partition): future for tp, future in futures.items()},
            doing=lambda tp: f"list offsets of {tp[0]}-{tp[1]}",
            deadline_s=left,
            fold=lambda answer: int(answer.offset),
        )


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


def _offset_spec(at: OffsetQuery) -> Any:
    if isinstance(at, int):
        return OffsetSpec.for_timestamp(at)
    return OffsetSpec._earliest if at == "earliest" else OffsetSpec._latest

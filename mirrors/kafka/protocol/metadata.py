"""Metadata of topics: ids, leaders, and whether a partition has a usable leader."""

from __future__ import annotations

import base64
import dataclasses
import uuid
from collections.abc import Iterable
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from mirrors.kafka.error_codes import Code
from mirrors.kafka.protocol.broker_pool import BrokerPool

NO_ID = bytes(16)


@dataclasses.dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition and its epoch. `node` is -1 without a leader."""

    node: int
    epoch: int


@dataclasses.dataclass(frozen=True, slots=True)
class TopicView:
    """One topic in the metadata. `error` is a protocol number, 3 for an unknown topic."""

    name: str
    topic_id: bytes
    error: int
    leaders: dict[int, Leader]
    replicas: int = 1


def describe_topics(
    cluster: BrokerPool[Any], names: Iterable[str], deadline: float
) -> dict[str, TopicView]:
    """Ids and leaders of these topics, as the cluster reports them now."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )
    reply = cluster.send_request(request, deadline)
    cluster.update_from_metadata(reply)
    return views(reply)


def leader_or_error(
    view: TopicView | None, partition: int, topic_id: bytes, *, recreated: int
) -> tuple[Leader | None, int]:
    """The leader of the partition, or the protocol number of the reason why it has none.

    `recreated` is the number for a topic with this name and another id.
    """
    leader = view.leaders.get(partition) if view is not None else None
    if view is None or view.error or leader is None:
        return None, (view.error if view is not None else 0) or Code.UNKNOWN_TOPIC_OR_PARTITION
    if view.topic_id != topic_id:
        return None, recreated
    if leader.node < 0:
        return None, Code.LEADER_NOT_AVAILABLE
    return leader, 0


def id_bytes(text: str) -> bytes:
    """A topic id in Kafka's text form (URL-safe base64 without padding) as 16 bytes."""
    return base64.urlsafe_b64decode(text + "==") if text else NO_ID


def id_text(raw: bytes) -> str:
    return "" if raw == NO_ID else base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def views(reply: Any) -> dict[str, TopicView]:
    """The topics of a metadata response, by name."""
    return {row.name: _view(row) for row in reply.topics or ()}


def _view(row: Any) -> TopicView:
    raw = row.topic_id.bytes if isinstance(row.topic_id, uuid.UUID) else NO_ID
    return TopicView(
        name=row.name,
        topic_id=raw,
        error=row.error_code,
        leaders={
            part.partition_index: Leader(part.leader_id, part.leader_epoch)
            for part in row.partitions
        },
        replicas=max((len(part.replica_nodes) for part in row.partitions), default=1),
    )

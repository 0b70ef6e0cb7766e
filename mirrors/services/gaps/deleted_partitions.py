"""Partitions that the source had deleted already when it was last reachable, from stored rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.failover.partitions import TopicList, deleted_partitions
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.positions import read_positions
from mirrors.models import Flow, FlowTopic
from mirrors.services.clock import milliseconds


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeletedPartitions:
    """Partitions that were replicated and then deleted on the source; `seen_at` (epoch ms) is the
    time of that observation, None without any."""

    partitions: frozenset[TopicPartition] = frozenset()
    seen_at: int | None = None


def find_deleted(
    *,
    flow: Flow,
    spec: FlowSpec,
    target: Admin,
    topic_partitions: Collection[TopicPartition],
    deadline_s: float,
) -> DeletedPartitions:
    """Which of these partitions were missing from the topics of the flow's last plan.

    Calls Kafka: only the target knows when a position was written. Raises UnderstudyError.
    """
    # Deleted topics are in the rows too; the source did not list them.
    listed_topics = FlowTopic.objects.filter(flow=flow).exclude(code="deleted_on_source")
    rows = list(listed_topics.values_list("topic", "partitions", "as_of"))
    if not rows or not topic_partitions:
        return DeletedPartitions()
    listed = TopicList(
        partitions={topic: partitions for topic, partitions, _ in rows},
        at=max(milliseconds(as_of) for _, _, as_of in rows),
    )
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    known = read_positions(target, policy.positions_topic(), deadline_s=deadline_s)
    written = {tp: known.written[tp] for tp in topic_partitions if tp in known.written}
    selection = TopicSelection(spec.settings, policy)
    found = deleted_partitions(listed, written, lambda topic: selection.decide(topic).replicated)
    return DeletedPartitions(partitions=found, seen_at=listed.at if found else None)

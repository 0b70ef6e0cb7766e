"""Partitions that a remote topic has and its source topic has not, and what they hold."""

from __future__ import annotations

from collections.abc import Iterable

from mirrors.domain.comparing.findings import Finding, extra_partition_finding
from mirrors.domain.snapshot import ClusterSnapshot
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics import CopiedTopic
from mirrors.kafka.admin import Admin, Place
from mirrors.models import Flow, PartitionMap

DEADLINE_S = 10.0


def find_extra_partitions(
    flow: Flow, spec: FlowSpec, copied: Iterable[CopiedTopic], target: ClusterSnapshot
) -> list[Finding]:
    """A finding for each; calls Kafka only where there are some."""
    extra: dict[Place, str] = {
        (row.remote_topic, number): row.topic
        for row in copied
        if (there := target.topics.get(row.remote_topic)) is not None
        for number in range(row.partitions, there.partitions)
    }
    if not extra:
        return []
    with Admin(spec.target) as admin:
        first = admin.list_offsets(extra, "earliest", deadline_s=DEADLINE_S).done
        end = admin.list_offsets(extra, "stable", deadline_s=DEADLINE_S).done
    maps = PartitionMap.objects.filter(flow=flow, topic__in=set(extra.values()))
    known = set(maps.values_list("topic", "partition"))
    return [
        extra_partition_finding(
            topic,
            place[0],
            place[1],
            held=(first[place], end[place]) if place in first and place in end else None,
            was_copied=(topic, place[1]) in known,
        )
        for place, topic in sorted(extra.items())
    ]

"""Verified ranges of partitions: stored with the offset map of each generation of a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Min, QuerySet, Subquery, Sum
from django.db.models.expressions import OuterRef
from django.db.models.functions import Coalesce

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.comparison.verified import VerifiedRange, extended, summary
from mirrors.models import ComparisonPart, Flow, FlowPartition, PartitionMap


def store_compared(*, part: ComparisonPart, at: datetime) -> None:
    """Extend the verified range by what was compared of a partition, from the flow's position at
    time `at`."""
    flow = part.comparison.flow_id
    rows = PartitionMap.objects.filter(
        flow=flow, topic=part.topic, partition=part.partition, position__isnull=False
    )
    row = rows.first()
    if row is None or part.source_first is None or part.next is None:
        return
    known = extended(
        range_of(row),
        first=part.source_first,
        end=part.next,
        differences=part.differences,
        at=at,
    )
    rows.filter(pk=row.pk).update(
        verified_first=known.first,
        verified_end=known.end,
        verified_at=known.at,
        compared_end=known.compared,
        differences=known.differences,
    )


def range_of(row: PartitionMap) -> VerifiedRange | None:
    """The stored range; None before the first comparison."""
    if row.verified_first is None or row.verified_end is None or row.compared_end is None:
        return None
    return VerifiedRange(
        first=row.verified_first,
        end=row.verified_end,
        at=row.verified_at,
        compared=row.compared_end,
        differences=row.differences,
    )


def compared_ends(maps: Mapping[TopicPartition, PartitionMap]) -> dict[TopicPartition, int]:
    """Where the next comparison of each partition continues."""
    return {tp: row.compared_end for tp, row in maps.items() if row.compared_end is not None}


def with_verified(rows: QuerySet[FlowPartition]) -> QuerySet[FlowPartition]:
    """Annotates `verified_offset` and `verified_at`; null for what no comparison has verified."""
    maps = PartitionMap.objects.filter(
        flow=OuterRef("flow"),
        topic=OuterRef("topic"),
        partition=OuterRef("partition"),
        position__isnull=False,
        verified_at__isnull=False,
    ).order_by()
    return rows.annotate(
        verified_offset=Subquery(maps.values("verified_end")[:1]),
        verified_at=Subquery(maps.values("verified_at")[:1]),
    )


def verified_sentence(flow: Flow, topic: str | None = None) -> str:
    """Up to when the records of a flow, or of one topic, are verified, in one sentence."""
    return _sentence(_current(flow, None if topic is None else [topic]))


def verified_facts(
    flow: Flow | None, *, most: int, topics: Sequence[str] | None = None
) -> dict[str, Any]:
    """What a certificate says: the sentence, and `most` partitions with offset and time.

    `topics`: only of these.
    """
    if flow is None:
        return {"sentence": summary(0, [], 0), "partitions": []}
    rows = (
        _current(flow, topics)
        .exclude(verified_at=None)
        .order_by("verified_at", "topic", "partition")
    )
    fields = ("topic", "partition", "verified_end", "verified_at")
    return {
        "sentence": _sentence(_current(flow, topics)),
        "partitions": [
            {
                "topic": topic,
                "partition": number,
                "offset": end,
                "at": at.isoformat(timespec="milliseconds"),
            }
            for topic, number, end, at in rows.values_list(*fields)[:most]
        ],
    }


def oldest_by_topic() -> list[tuple[int, str, int, int, datetime | None]]:
    """Flow, topic, its partitions, those that are verified, and the oldest time of these."""
    rows = PartitionMap.objects.filter(position__isnull=False).order_by()
    return list(
        rows.values_list("flow", "topic").annotate(
            Count("pk"), Count("verified_at"), Min("verified_at")
        )
    )


def verified_since() -> dict[int, tuple[int, int, datetime]]:
    """By flow: its partitions, those that no comparison has verified, and the oldest time.

    The time of a partition that was never verified is when it was first seen.
    """
    time = Coalesce("verified_at", "known_since", F("flow__created_at"))
    rows = PartitionMap.objects.filter(position__isnull=False).order_by().values_list("flow")
    found = rows.annotate(many=Count("pk"), verified=Count("verified_at"), oldest=Min(time))
    return {flow: (many, many - verified, oldest) for flow, many, verified, oldest in found}


def _sentence(rows: QuerySet[PartitionMap]) -> str:
    found = rows.aggregate(
        partitions=Count("pk"),
        verified=Count("verified_at"),
        oldest=Min("verified_at"),
        differences=Sum("differences", default=0),
    )
    times = [found["oldest"]] * found["verified"]
    return summary(found["partitions"], times, found["differences"])


def _current(flow: Flow, topics: Sequence[str] | None = None) -> QuerySet[PartitionMap]:
    rows = PartitionMap.objects.filter(flow=flow, position__isnull=False)
    return rows if topics is None else rows.filter(topic__in=topics)

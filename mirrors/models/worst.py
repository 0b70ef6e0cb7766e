"""Where it is worst now: the topics furthest behind, and the consumer groups that read them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from django.db.models import F, Q

from mirrors.domain.account.totals import Total, combine
from mirrors.models.flows import Flow, FlowTopic
from mirrors.models.groups import GroupOffset


@dataclasses.dataclass(frozen=True)
class WorstGroup:
    """A group by its worst topic, with what all the topics that it reads owe together.

    Those records are what it would not find on the target if the source failed now.
    """

    flow: Flow
    group: str
    topic: str
    time_lag_ms: int | None
    total: Total

    @property
    def offset_lag(self) -> int | None:
        """For a reader without room for a certainty: null while any part is unknown."""
        return self.total.exact_or_none


def worst_topics(limit: int) -> list[FlowTopic]:
    """The topics furthest behind, over all flows; their flows are joined to these few alone."""
    worst_first = (F("time_lag_ms").desc(nulls_last=True), "-owed", "-unknown_partitions", "pk")
    owing = Q(owed__gt=0) | Q(unknown_partitions__gt=0)
    behind = FlowTopic.objects.filter(owing).exclude(state="skipped").order_by(*worst_first)
    rows = FlowTopic.objects.filter(pk__in=behind.values("pk")[:limit])
    return list(rows.select_related("flow__source", "flow__target").order_by(*worst_first))


def worst_groups(topics: Sequence[FlowTopic], limit: int) -> list[WorstGroup]:
    """The groups that read these topics, which come worst first; three queries."""
    rank = {(row.flow_id, row.topic): at for at, row in enumerate(topics)}
    flows, names = {flow for flow, _ in rank}, {topic for _, topic in rank}
    readers = GroupOffset.objects.filter(flow__in=flows, topic__in=names).order_by()
    best: dict[tuple[int, str], int] = {}
    for flow, group, topic in readers.values_list("flow", "group", "topic").distinct():
        at = rank.get((flow, topic))
        if at is not None:
            best[flow, group] = min(at, best.get((flow, group), at))
    chosen = sorted(best, key=lambda key: (best[key], key[1]))[:limit]
    waiting = _waiting(chosen)
    return [
        WorstGroup(
            flow=topics[best[key]].flow,
            group=key[1],
            topic=topics[best[key]].topic,
            time_lag_ms=topics[best[key]].time_lag_ms,
            total=waiting[key],
        )
        for key in chosen
    ]


def _waiting(groups: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Total]:
    """What the copied topics that each of these reads owe."""
    flows, names = {flow for flow, _ in groups}, {group for _, group in groups}
    read = GroupOffset.objects.filter(flow__in=flows, group__in=names).exclude(topic="").order_by()
    pairs = set(read.values_list("flow", "group", "topic").distinct())
    copied = FlowTopic.objects.filter(
        flow__in=flows, topic__in={topic for *_, topic in pairs}, remote_topic__isnull=False
    )
    owed = {(row.flow_id, row.topic): row.total for row in copied}
    topics: dict[tuple[int, str], list[tuple[str, Total]]] = defaultdict(list)
    for flow, group, topic in sorted(pairs):
        if (flow, topic) in owed:
            topics[flow, group].append((topic, owed[flow, topic]))
    return {key: combine(topics[key]) for key in groups}

"""Where it is worst now: the topics furthest behind, and the consumer groups that read them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from django.db.models import F

from mirrors.models.flows import Flow, FlowTopic
from mirrors.models.groups import GroupOffset


@dataclasses.dataclass(frozen=True)
class WorstGroup:
    """A group by its worst topic; `offset_lag` is of all its topics, null while one is not known.

    Those records are what it would not find on the target if the source died now.
    """

    flow: Flow
    group: str
    topic: str
    time_lag_ms: int | None
    offset_lag: int | None


def worst_topics(limit: int) -> list[FlowTopic]:
    """The topics furthest behind, over all flows; their flows are joined to these few alone."""
    worst_first = (F("time_lag_ms").desc(nulls_last=True), "-offset_lag", "pk")
    behind = FlowTopic.objects.filter(offset_lag__gt=0).order_by(*worst_first)
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
            offset_lag=waiting[key],
        )
        for key in chosen
    ]


def _waiting(groups: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int | None]:
    """The records not yet copied of all copied topics that each of these reads."""
    flows, names = {flow for flow, _ in groups}, {group for _, group in groups}
    read = GroupOffset.objects.filter(flow__in=flows, group__in=names).exclude(topic="").order_by()
    pairs = set(read.values_list("flow", "group", "topic").distinct())
    copied = FlowTopic.objects.filter(
        flow__in=flows, topic__in={topic for *_, topic in pairs}, remote_topic__isnull=False
    )
    behind = {
        (flow, topic): lag for flow, topic, lag in copied.values_list("flow", "topic", "offset_lag")
    }
    lags: dict[tuple[int, str], list[int | None]] = defaultdict(list)
    for flow, group, topic in pairs:
        if (flow, topic) in behind:
            lags[flow, group].append(behind[flow, topic])
    found: dict[tuple[int, str], int | None] = {}
    for key in groups:
        known = [lag for lag in lags[key] if lag is not None]
        found[key] = sum(known) if len(known) == len(lags[key]) else None
    return found

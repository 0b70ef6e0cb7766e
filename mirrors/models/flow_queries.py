"""Queries over many flows: what each owes, and the topics and groups that are furthest behind."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce

from mirrors.domain.account.totals import Total, combine
from mirrors.models.access.grants import filtered
from mirrors.models.flows import NAME, Flow, FlowTopic
from mirrors.models.groups.offsets import GroupOffset


def flows_with_lag() -> QuerySet[Any]:
    """Flows joined with their stored accounts.

    `owed` is the known sum, with its `certainty`, `unknown_partitions` and `observed_at`.
    `offset_lag` is the same number for readers without a certainty: null while a part is unknown.
    """
    return filtered(_flows_with_lag().all())


def figures_as_of(flow: Any) -> datetime | None:
    """When the oldest of a flow's figures was observed; None if that is unknown.

    A runner still reports while a part of its source is unreachable, so `as_of` may be newer.
    """
    account = getattr(flow, "account", None)
    if account is None or account.total.is_empty or not account.partitions:
        return flow.as_of
    return min(filter(None, (account.observed_at, flow.as_of))) if account.observed_at else None


@functools.cache
def _flows_with_lag() -> QuerySet[Any]:
    """The query of all flows, built once; `all` makes a copy that runs again."""
    return (
        _labelled(Flow._base_manager.all())
        .select_related("account")
        .annotate(
            copied=Coalesce(F("account__topics_copied"), 0),
            left_out=Coalesce(F("account__topics_left_out"), 0),
            blocked=Coalesce(F("account__topics_blocked"), 0),
            owed=F("account__records"),
            unknown_partitions=Coalesce(F("account__unknown"), 0),
            certainty=Coalesce(F("account__certainty"), Value("unknown")),
            observed_at=F("account__observed_at"),
            offset_lag=Case(When(account__unknown=0, then=F("account__records"))),
            time_lag_ms=F("account__time_lag_ms"),
            unknown_lags=Coalesce(F("account__unknown_lags"), 0),
            worst_topic=F("account__worst_topic"),
        )
    )


def labelled_flows() -> QuerySet[Any]:
    """Flows with their displayed names as `label`."""
    return _labelled(Flow.objects.all())


def _labelled(rows: QuerySet[Any]) -> QuerySet[Any]:
    rows = rows.select_related("source", "target", "runner")
    return rows.annotate(label=NAME)


@dataclasses.dataclass(frozen=True)
class WorstGroup:
    """A group with its worst topic and the sum that all its topics owe.

    If the source failed now, the target would lack these records.
    """

    flow: Flow
    group: str
    topic: str
    time_lag_ms: int | None
    total: Total

    @property
    def offset_lag(self) -> int | None:
        """The sum for readers without a certainty: null while a part is unknown."""
        return self.total.exact_or_none


def worst_topics(limit: int, flow: int | None = None) -> list[FlowTopic]:
    """The topics furthest behind, over all flows or of one, with their flows."""
    worst_first = (F("time_lag_ms").desc(nulls_last=True), "-owed", "-unknown_partitions", "pk")
    owing = Q(owed__gt=0) | Q(unknown_partitions__gt=0)
    behind = FlowTopic.objects.filter(owing).exclude(state="skipped").order_by(*worst_first)
    if flow is not None:
        behind = behind.filter(flow=flow)
    rows = FlowTopic.objects.filter(pk__in=behind.values("pk")[:limit])
    return list(rows.select_related("flow__source", "flow__target").order_by(*worst_first))


def worst_groups(topics: Sequence[FlowTopic], limit: int) -> list[WorstGroup]:
    """The groups that read these topics, in the order of the topics; three queries."""
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
    """By group: what the replicated topics that it reads owe."""
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

"""FlowAccount: the sum of what a flow owes; duplicates and stopped partitions of flows."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import Count, F, Max, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Cast, Coalesce

from mirrors.domain.account.partition import State
from mirrors.domain.account.totals import Total
from mirrors.models.access.grants import Owned
from mirrors.models.flows import Flow, FlowPartition, epoch_ms


class FlowAccount(Owned):
    """The sum over the flow's topics, written in one transaction with their rows.

    `records` sums the known amounts, `unknown` counts the topic-partitions without one;
    `observed_at` is the oldest observation of the source in the sum, null where there is none.
    `states` counts topic-partitions by their account state.
    """

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="account")
    revision = models.PositiveBigIntegerField(default=0)
    as_of = models.DateTimeField()
    # True: from a scan of the source, because no runner reports a plan.
    is_swept = models.BooleanField(default=False)
    records = models.BigIntegerField(default=0)
    least = models.BigIntegerField(default=0)
    unknown = models.PositiveIntegerField(default=0)
    certainty = models.CharField(max_length=16, default="unknown")
    observed_at = models.DateTimeField(null=True)
    time_lag_ms = models.BigIntegerField(null=True)
    # Topic-partitions that may owe records of unknown age.
    unknown_lags = models.PositiveIntegerField(default=0, db_default=0)
    partitions = models.PositiveIntegerField(default=0)
    states = models.JSONField(default=dict)
    # Names of the first few topics with an unknown amount.
    unknown_topics = models.JSONField(default=list)
    topics_copied = models.PositiveIntegerField(default=0)
    topics_left_out = models.PositiveIntegerField(default=0)
    # Topics that are not replicated until a person acts.
    topics_blocked = models.PositiveIntegerField(default=0)
    worst_topic = models.CharField(max_length=255, blank=True)
    # `domain.flows.latency.Latency` of all its topics in the last minute at most.
    latency = models.JSONField(null=True)
    # Why the principal does not see the topics of the filters; empty when it does.
    not_visible = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"account of flow {self.flow_id}"

    @property
    def total(self) -> Total:
        facts = {name: getattr(self, name) for name in Total._fields}
        facts["observed_at"] = epoch_ms(self.observed_at)
        facts["unknown_topics"] = tuple(self.unknown_topics)
        return Total(**facts)


_JSON = ("states", "unknown_topics")
_OBSERVED_AT, _STATES, _UNKNOWN_TOPICS = map(Total._fields.index, ("observed_at", *_JSON))


def total_columns(prefix: str = "") -> list[F | Cast]:
    """The columns that `total_reader` reads, for `values_list` without whole rows."""
    text = models.TextField()
    names = ((name, F(f"{prefix}{name}")) for name in Total._fields)
    return [Cast(column, text) if name in _JSON else column for name, column in names]


def total_reader() -> Callable[[list[Any]], Total | None]:
    """Return a function from the values of `total_columns` to their total; None without a row.

    Most of thousands of flows have the same states and unknown topics: each text is decoded once.
    """
    states: Callable[[str], dict[State, int]] = functools.cache(json.loads)
    topics = functools.cache(lambda text: tuple(json.loads(text)))

    def read(facts: list[Any]) -> Total | None:
        if facts[_STATES] is None:
            return None
        facts[_OBSERVED_AT] = epoch_ms(facts[_OBSERVED_AT])
        facts[_STATES] = states(facts[_STATES])
        facts[_UNKNOWN_TOPICS] = topics(facts[_UNKNOWN_TOPICS])
        return Total(*facts)

    return read


def totals_by_flow() -> dict[int, Total | None]:
    """What each flow with an account owes."""
    read = total_reader()
    rows = FlowAccount.objects.order_by().values_list("flow", *total_columns())
    return {flow: read(facts) for flow, *facts in rows}


def repeats_of() -> dict[int, int]:
    """Duplicate records on the target, by flow, where the flow counts them."""
    counted = FlowPartition.objects.filter(repeats__isnull=False).order_by()
    return dict(counted.values_list("flow").annotate(Sum("repeats")))


def with_repeats(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Flows with `repeats`: their duplicate records on the target, null where not counted."""
    mine = FlowPartition.objects.filter(flow=OuterRef("pk")).order_by().values("flow")
    return rows.annotate(repeats=Subquery(mine.annotate(sum=Sum("repeats")).values("sum")))


def dead_letters_of(flow: int | None = None) -> dict[tuple[int, str], int]:
    """Records in the dead-letter topic, by flow and topic, where there are some."""
    counted = FlowPartition.objects.filter(dead_letters__gt=0).order_by()
    if flow is not None:
        counted = counted.filter(flow=flow)
    sums = counted.values_list("flow", "topic").annotate(Sum("dead_letters"))
    return {(flow, topic): count for flow, topic, count in sums}


def dead_letters_by_flow() -> dict[int, tuple[int, datetime | None]]:
    """Of flows with some: their number, and when the last one came.

    One read of all partitions; `with_dead_letters` looks up those of each flow, for a page of them.
    """
    rows = FlowPartition.objects.filter(dead_letters__gt=0).order_by().values_list("flow")
    found = rows.annotate(sum=Sum("dead_letters"), last=Max("dead_letter_at"))
    # PostgreSQL's sum of big integers is a decimal.
    return {flow: (int(count), last) for flow, count, last in found}


def with_dead_letters(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Flows with `dead_letters` and `dead_letter_at`: their number, and when the last one came."""
    mine = FlowPartition.objects.filter(flow=OuterRef("pk")).order_by().values("flow")
    return rows.annotate(
        dead_letters=Subquery(mine.annotate(sum=Sum("dead_letters")).values("sum")),
        dead_letter_at=Subquery(mine.annotate(last=Max("dead_letter_at")).values("last")),
    )


STATES = ("faulted", "gap")


@dataclasses.dataclass(frozen=True)
class StoppedPartitions:
    """Stopped partitions of a flow.

    `waiting`: records not replicated, summed over partitions with a known end. `unknown`: the
    number of partitions without one.
    """

    partitions: int = 0
    waiting: int = 0
    unknown: int = 0


def stopped_of(flows: Collection[int] | None = None) -> dict[int, StoppedPartitions]:
    """By flow, for flows with stopped partitions; without `flows`, of all flows."""
    rows = FlowPartition.objects.filter(state__in=STATES).order_by()
    if flows is not None:
        rows = rows.filter(flow__in=flows)
    counts = rows.values_list("flow").annotate(
        partitions=Count("pk"),
        unknown=Count("pk", filter=Q(offset_lag=None)),
        waiting=Sum("offset_lag"),
    )
    return {
        flow: StoppedPartitions(partitions, waiting or 0, unknown)
        for flow, partitions, unknown, waiting in counts
    }


def with_stopped(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Flows with `stopped` (null for none), `waiting`, and `waiting_unknown`
    (see `StoppedPartitions`).
    """
    mine = FlowPartition.objects.filter(flow=OuterRef("pk"), state__in=STATES).order_by()
    by_flow = mine.values("flow")
    unknown = Count("pk", filter=Q(offset_lag=None))
    return rows.annotate(
        stopped=Subquery(by_flow.annotate(count=Count("pk")).values("count")),
        waiting=Subquery(by_flow.annotate(sum=Coalesce(Sum("offset_lag"), 0)).values("sum")),
        waiting_unknown=Subquery(by_flow.annotate(unknown=unknown).values("unknown")),
    )

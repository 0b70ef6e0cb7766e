"""What pages read of many flows in few queries: how far behind each is, and where it is worst."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    F,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Concat

from mirrors.models.flows import Flow, FlowTopic

_COPIED = Q(remote_topic__isnull=False) & ~Q(state="skipped")
_PARTS = {
    "copied": Count("pk", filter=_COPIED),
    "unknown": Count("pk", filter=_COPIED & Q(offset_lag__isnull=True)),
    "behind": Count("pk", filter=_COPIED & Q(offset_lag__gt=0)),
    "eldest": Max("time_lag_ms", filter=_COPIED),
}
_LAG = Case(
    When(unknown__gt=0, then=None),
    When(copied=0, then=0),
    default=Sum("offset_lag", filter=_COPIED),
    output_field=BigIntegerField(),
)
# Topics in step are 0 ms old: they say nothing of one that is behind by an age that nobody knows.
_OLDEST = Case(
    When(behind__gt=0, eldest=0, then=None), default=F("eldest"), output_field=BigIntegerField()
)


def flows_with_lag() -> QuerySet[Any]:
    """Flows with the totals of their copied topics.

    `offset_lag` is null while that of any copied topic is: a partial sum would promise too much.
    Each total is looked up by flow: a list of fifty flows reads the topics of those fifty.
    """
    return _flows_with_lag().all()


@functools.cache
def _flows_with_lag() -> QuerySet[Any]:
    """The question alone, put together once; `all` asks it anew."""
    behind = FlowTopic.objects.filter(flow=OuterRef("pk"), offset_lag__gt=0)
    worst = behind.order_by(F("time_lag_ms").desc(nulls_last=True), "-offset_lag")
    return labelled_flows().annotate(
        copied=Coalesce(_of_topics(_PARTS["copied"]), 0),
        left_out=Coalesce(_of_topics(Count("pk", filter=~_COPIED)), 0),
        unknown_lags=Coalesce(_of_topics(_PARTS["unknown"]), 0),
        offset_lag=_of_topics(_LAG, **_PARTS),
        time_lag_ms=_of_topics(_OLDEST, **_PARTS),
        worst_topic=Subquery(worst.values("topic")[:1]),
    )


def labelled_flows() -> QuerySet[Any]:
    """Flows with their names as people write them, `label`."""
    rows = Flow.objects.select_related("source", "target", "runner")
    return rows.annotate(label=Concat("source__alias", Value("->"), "target__alias"))


def add_lags(flows: Iterable[Any]) -> list[Any]:
    """The same flows with `offset_lag` and `time_lag_ms` as `flows_with_lag` has them.

    For who reads every flow: the topics of all are totalled at once.
    """
    by_flow = FlowTopic.objects.order_by().values("flow").annotate(**_PARTS)
    totals = by_flow.annotate(total=_LAG, oldest=_OLDEST).values_list("flow", "total", "oldest")
    found = {flow: (total, oldest) for flow, total, oldest in totals}
    known = list(flows)
    for flow in known:
        flow.offset_lag, flow.time_lag_ms = found.get(flow.pk, (None, None))
    return known


def _of_topics(total: Any, **parts: Any) -> Subquery:
    """One total over the topics of a flow; null where it has none."""
    rows = FlowTopic.objects.filter(flow=OuterRef("pk")).order_by().values("flow")
    return Subquery(rows.annotate(**parts).annotate(total=total).values("total"))

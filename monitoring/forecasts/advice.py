"""What would save transfer of a flow, from its usage, its readers and its measured topics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import Avg, Max, Min

from mirrors.models import Flow, GroupOffset
from monitoring.domain.cost_advice import Advice, Readers, advise
from monitoring.domain.costs import MonthCost
from monitoring.domain.history import HOUR
from monitoring.forecasts import compression, usage
from monitoring.models import LagSample

_WEEK = timedelta(days=7)


def advice_of(flow: Flow, cost: MonthCost, used: Mapping[str, int], now: datetime) -> list[Advice]:
    """`used`: bytes of this month by topic."""
    hours = LagSample.objects.filter(
        flow=flow, resolution=HOUR.seconds, at__gte=now - _WEEK, bytes_per_second__isnull=False
    )
    rates = hours.aggregate(mean=Avg("bytes_per_second"), peak=Max("bytes_per_second"))
    return list(
        advise(
            by_topic=used,
            readers=readers_of(flow),
            samples=compression.samples_of(flow),
            month=cost,
            price=usage.price_of(flow),
            mean_rate=rates["mean"],
            peak_rate=rates["peak"],
        )
    )


def readers_of(flow: Flow) -> Readers | None:
    """None if the flow has not surveyed groups.

    Idle is only a topic in which the offset of each reader has a known age, and records wait. The
    age ends with the survey: later, an offset may have moved.
    """
    groups = GroupOffset.objects.filter(flow=flow)
    if not groups.exists():
        return None
    read = set(groups.order_by().values_list("topic", flat=True).distinct())
    offsets = groups.filter(source_offset__isnull=False).order_by().values("topic")
    ages = offsets.annotate(
        moved_at=Max("offset_since"), seen_at=Min("as_of"), waiting=Max("source_lag")
    )
    unknown = set(
        groups.filter(source_offset__isnull=False, offset_since=None).values_list(
            "topic", flat=True
        )
    )
    return Readers(
        read=read,
        idle={
            row["topic"]: row["seen_at"] - row["moved_at"]
            for row in ages
            if row["topic"] not in unknown and row["waiting"]
        },
    )

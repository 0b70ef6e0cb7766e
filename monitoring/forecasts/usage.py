"""Bytes by topic and month, from hourly samples, and the cost of each flow's month."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Max, Min, Sum
from django.utils import timezone

from mirrors.domain.audit.actors import RECONCILER
from mirrors.domain.errors import InvalidSettings
from mirrors.models import Flow
from mirrors.models.audit.transitions import note
from monitoring.domain.costs import MonthCost, Price, month_cost, month_of
from monitoring.domain.history import TOPIC_HOUR, TOPIC_MINUTE
from monitoring.models import MonthlyUsage, TopicSample, TransferPrice

# Months that are kept.
KEEP = timedelta(days=400)
_BATCH = 500


def add_hour(at: datetime, rows: Iterable[TopicSample]) -> None:
    """Add one finished hour. An hour that is already contained is not added twice."""
    end, month = at + TOPIC_HOUR.step, month_of(at).date()
    sent = {(row.flow_id, row.topic): row.bytes for row in rows if row.bytes}
    known = MonthlyUsage.objects.filter(month=month, flow__in={flow for flow, _ in sent})
    old = [row for row in known if (row.flow_id, row.topic) in sent]
    seen = {(row.flow_id, row.topic) for row in old}
    late = [row for row in old if row.until <= at]
    for row in late:
        row.bytes += sent[row.flow_id, row.topic]
        row.until = end
    MonthlyUsage.objects.bulk_update(late, ("bytes", "until"), batch_size=_BATCH)
    MonthlyUsage.objects.bulk_create(
        (
            MonthlyUsage(flow_id=flow, topic=topic, month=month, bytes=count, since=at, until=end)
            for (flow, topic), count in sent.items()
            if (flow, topic) not in seen
        ),
        batch_size=_BATCH,
        ignore_conflicts=True,
    )


def prune(*, now: datetime) -> int:
    return MonthlyUsage.objects.filter(month__lt=(now - KEEP).date()).delete()[0]


def costs(flows: Iterable[Flow], now: datetime) -> dict[int, MonthCost]:
    """The cost of this month by flow; a fixed number of queries."""
    now, flows = now.astimezone(UTC), list(flows)
    if len(flows) == 1:
        sent = {flows[0].pk: sum(usage_of(flows[0], now).values())}
    else:
        sent = _sent_by_flow(month_of(now))
    since = _known_since()
    prices = prices_by_pair()
    found = {}
    for flow in flows:
        total = sent.get(flow.pk, 0)
        price = prices.get((flow.source_id, flow.target_id))
        found[flow.pk] = month_cost(used=total, since=since, price=price, now=now)
    return found


def prices_by_pair() -> dict[tuple[int, int], Price]:
    return {(row.source_id, row.target_id): row.price for row in TransferPrice.objects.all()}


def usage_of(flow: Flow, now: datetime) -> dict[str, int]:
    """Bytes of this month by topic."""
    month = month_of(now.astimezone(UTC))
    rows = MonthlyUsage.objects.filter(flow=flow, month=month.date())
    found = dict(rows.values_list("topic", "bytes"))
    minutes = _minutes(month).filter(flow=flow).order_by().values_list("topic")
    for topic, count in minutes.annotate(Sum("bytes")):
        found[topic] = found.get(topic, 0) + count
    return {topic: count for topic, count in found.items() if count}


def topic_usage(flow: Flow, topic: str, now: datetime) -> int:
    """Bytes of this month of one topic."""
    month = month_of(now.astimezone(UTC))
    counted = MonthlyUsage.objects.filter(flow=flow, topic=topic, month=month.date())
    minutes = _minutes(month).filter(flow=flow, topic=topic)
    return sum(rows.aggregate(sent=Sum("bytes"))["sent"] or 0 for rows in (counted, minutes))


def set_price(
    *, flow: Flow, per_gb: Decimal | None, currency: str, budget: Decimal | None, who: str
) -> None:
    """Set the price of the flow's pair of clusters; None removes it. Audited."""
    pair: dict[str, Any] = {"source": flow.source, "target": flow.target}
    currency = currency.strip().upper()
    errors = {}
    if per_gb is not None and not (len(currency) == 3 and currency.isalpha()):
        errors["currency"] = ["Enter the three letters of a currency, such as EUR."]
    if per_gb is not None and per_gb < 0:
        errors["per_gb"] = ["Enter a price of 0 or more."]
    if budget is not None and budget <= 0:
        errors["monthly_budget"] = ["Enter a budget above 0, or leave it empty."]
    if per_gb is None and budget is not None:
        errors["per_gb"] = ["A budget needs a price."]
    if errors:
        raise InvalidSettings(errors)
    with transaction.atomic():
        if per_gb is None:
            TransferPrice.objects.filter(**pair).delete()
            text = "No price."
        else:
            facts: dict[str, Any] = {"per_gb": per_gb, "currency": currency}
            facts |= {"monthly_budget": budget, "set_by": who[:150], "set_at": timezone.now()}
            TransferPrice.objects.update_or_create(**pair, defaults=facts)
            text = f"{per_gb.normalize():f} {currency} per GB"
            text += f", budget {budget:,.2f} {currency} a month." if budget else ", no budget."
        note(flow, what="price set", who=who or RECONCILER, why=text)


def _known_since() -> datetime | None:
    """From when bytes are known: not before the collector first counted."""
    first = MonthlyUsage.objects.aggregate(Min("since"))["since__min"]
    if first is None:
        minutes = TopicSample.objects.filter(resolution=TOPIC_MINUTE.seconds).order_by("at")
        first = minutes.values_list("at", flat=True).first()
    return None if first is None else first.astimezone(UTC)


def _minutes(month: datetime) -> Any:
    """Samples of the hours that no month contains yet."""
    last = MonthlyUsage.objects.aggregate(Max("until"))["until__max"]
    start = month if last is None else max(month, last.astimezone(UTC))
    return TopicSample.objects.filter(resolution=TOPIC_MINUTE.seconds, at__gte=start)


def _sent_by_flow(month: datetime) -> dict[int, int]:
    """Bytes of this month."""
    rows = MonthlyUsage.objects.filter(month=month.date()).order_by().values_list("flow")
    found = dict(rows.annotate(Sum("bytes")))
    for flow, count in _minutes(month).order_by().values_list("flow").annotate(Sum("bytes")):
        found[flow] = found.get(flow, 0) + count
    return found

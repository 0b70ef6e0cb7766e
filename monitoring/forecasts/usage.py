"""Bytes by topic and month, counted with each minute's samples, and each flow's cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

from django.db import connection, transaction
from django.db.models import Min, QuerySet, Sum
from django.utils import timezone

from mirrors.domain.audit.actors import RECONCILER
from mirrors.domain.errors import InvalidSettings
from mirrors.models import Flow
from mirrors.models.audit.transitions import note
from monitoring.domain.costs import MonthCost, Price, month_cost, month_of
from monitoring.domain.history import TOPIC_MINUTE
from monitoring.models import MonthlyUsage, TopicSample, TransferPrice

# Months that are kept.
KEEP = timedelta(days=400)
_TABLE = MonthlyUsage._meta.db_table
# The ORM's upsert replaces a value; this one adds to it.
_ADD = f"""
INSERT INTO {_TABLE} (flow_id, topic, month, bytes, since, until) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (flow_id, topic, month) DO UPDATE
SET bytes = {_TABLE}.bytes + excluded.bytes, until = excluded.until
WHERE {_TABLE}.until < excluded.until
"""  # noqa: S608 - the name of the model's table


def add_minute(at: datetime, rows: Iterable[TopicSample]) -> None:
    """Add the samples of one minute. A minute that a topic already contains is not added twice."""
    month, end = month_of(at.astimezone(UTC)).date(), at + TOPIC_MINUTE.step
    values = [(row.flow_id, row.topic, month, row.bytes, at, end) for row in rows if row.bytes]
    if values:
        with connection.cursor() as cursor:
            cursor.executemany(_ADD, values)


def prune(*, now: datetime) -> int:
    return MonthlyUsage.objects.filter(month__lt=(now - KEEP).date()).delete()[0]


class Pair(Protocol):
    """A flow, or a row with its key and those of its clusters."""

    @property
    def pk(self) -> int: ...
    @property
    def source_id(self) -> int: ...
    @property
    def target_id(self) -> int: ...
    @property
    def created_at(self) -> datetime: ...


def costs(flows: Iterable[Pair], now: datetime) -> dict[int, MonthCost]:
    """The cost of this month by flow; a fixed number of queries."""
    now, flows = now.astimezone(UTC), list(flows)
    prices: Mapping[tuple[int, int], Price | None]
    rows = MonthlyUsage.objects.filter(month=month_of(now).date())
    if len(flows) == 1:
        [flow] = flows
        sent = _sent_by_flow(rows.filter(flow=flow.pk))
        prices = {(flow.source_id, flow.target_id): price_of(flow)}
    else:
        sent, prices = _sent_by_flow(rows), _prices(TransferPrice.objects.all())
    since = _known_since()
    found = {}
    for flow in flows:
        total, first = sent.get(flow.pk, (0, flow.created_at))
        price = prices.get((flow.source_id, flow.target_id))
        found[flow.pk] = month_cost(
            used=total, since=since, price=price, now=now, began=min(first, flow.created_at)
        )
    return found


def price_of(flow: Pair) -> Price | None:
    """The price between the clusters of the flow."""
    rows = TransferPrice.objects.filter(source=flow.source_id, target=flow.target_id)
    return next(iter(_prices(rows).values()), None)


def _prices(rows: QuerySet[TransferPrice]) -> dict[tuple[int, int], Price]:
    """By source and target."""
    columns = ("source", "target", "per_gb", "currency", "monthly_budget")
    return {
        (source, target): Price(*price)
        for source, target, *price in rows.order_by().values_list(*columns)
    }


def usage_of(flow: Pair, now: datetime) -> dict[str, int]:
    """Bytes of this month by topic."""
    month = month_of(now.astimezone(UTC)).date()
    rows = MonthlyUsage.objects.filter(flow=flow.pk, month=month)
    return dict(rows.filter(bytes__gt=0).values_list("topic", "bytes"))


def topic_usage(flow: Flow, topic: str, now: datetime) -> int:
    """Bytes of this month of one topic."""
    month = month_of(now.astimezone(UTC)).date()
    rows = MonthlyUsage.objects.filter(flow=flow, topic=topic, month=month)
    return rows.values_list("bytes", flat=True).first() or 0


def set_price(
    *, flow: Flow, per_gb: Decimal | None, currency: str, budget: Decimal | None, who: str
) -> None:
    """Set the price of the flow's pair of clusters; None removes it. A change is audited."""
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
    wanted = None if per_gb is None else Price(per_gb, currency, budget)
    with transaction.atomic():
        if wanted == price_of(flow):
            return
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
    return None if first is None else first.astimezone(UTC)


def _sent_by_flow(rows: QuerySet[MonthlyUsage]) -> dict[int, tuple[int, datetime]]:
    """Bytes of the rows, and when the first of them was counted."""
    found = rows.order_by().values_list("flow").annotate(Sum("bytes"), Min("since"))
    return {flow: (total, first) for flow, total, first in found}

"""Cost of a month's replication, and its forecast. Pure; money is Decimal.

A gigabyte has 10^9 bytes. Bytes are those sent to the target, compressed as they are there. What is
not known has no figure: no price, no cost; too short a history, no forecast.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from decimal import Decimal

GIGABYTE = Decimal(10**9)
# A forecast from less history would swing with the time of day.
LEAST_HISTORY = timedelta(hours=6)
_LEAST_SHOWN = Decimal("0.0001")


@dataclasses.dataclass(frozen=True)
class Price:
    """Price per gigabyte between two clusters; the budget of a month, None without one."""

    per_gb: Decimal
    currency: str
    budget: Decimal | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class MonthCost:
    """A month so far.

    - `since`: from when bytes are known; after the first of the month, `cost` is a lower bound.
    - `forecast_bytes`, `forecast`: of the whole month at the mean rate so far, of a flow that
      began this month at its mean rate since then.
    - `share`: the forecast in percent of the budget.
    """

    month: datetime
    since: datetime | None
    bytes: int
    cost: Decimal | None
    forecast_bytes: int | None
    forecast: Decimal | None
    budget: Decimal | None
    share: float | None
    currency: str

    @property
    def is_whole(self) -> bool:
        return self.since is not None and self.since <= self.month


def month_of(now: datetime) -> datetime:
    """The start of the month in UTC; `now` is in UTC."""
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def next_month(month: datetime) -> datetime:
    return month_of(month + timedelta(days=32))


def cost_of(size_bytes: int, price: Price | None) -> Decimal | None:
    return None if price is None else Decimal(size_bytes) / GIGABYTE * price.per_gb


def month_cost(
    *,
    used: int,
    since: datetime | None,
    price: Price | None,
    now: datetime,
    began: datetime | None = None,
) -> MonthCost:
    """`used`: bytes since `since`, which is None while nothing is known.

    `began`: when the flow began. That it sent nothing before says nothing about its rate.
    """
    month = month_of(now)
    begun = None if since is None else max(since, month)
    expected = None
    counted = None if begun is None else max(begun, began or begun)
    if counted is not None and now - counted >= LEAST_HISTORY:
        rate = used / (now - counted).total_seconds()
        expected = used + round(rate * (next_month(month) - now).total_seconds())
    forecast = None if expected is None else cost_of(expected, price)
    budget = price.budget if price else None
    return MonthCost(
        month=month,
        since=begun,
        bytes=used,
        cost=None if begun is None else cost_of(used, price),
        forecast_bytes=expected,
        forecast=forecast,
        budget=budget,
        share=float(forecast / budget * 100) if forecast is not None and budget else None,
        currency=price.currency if price else "",
    )


def money(amount: Decimal | None, currency: str) -> str:
    """`12.30 EUR`; amounts below one have four decimals, smaller ones are `< 0.0001 EUR`."""
    if amount is None:
        return "unknown"
    if 0 < amount < _LEAST_SHOWN:
        return f"< {_LEAST_SHOWN} {currency}"
    return f"{amount:,.4f} {currency}" if 0 < amount < 1 else f"{amount:,.2f} {currency}"


def budget_sentence(found: MonthCost) -> str:
    """The forecast against the budget, for an alert; without either, why there is none."""
    if found.budget is None:
        return "has no budget"
    if found.forecast is None or found.share is None:
        return "has no forecast of its cost yet"
    spent = money(found.cost, found.currency)
    return (
        f"will cost {money(found.forecast, found.currency)} this month, {found.share:.0f} % of its "
        f"budget of {money(found.budget, found.currency)}; {spent} so far"
    )

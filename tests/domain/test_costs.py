"""Cost of a month: exact so far, a forecast only with history, nothing for what is not known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.domain.costs import (
    GIGABYTE,
    MonthCost,
    Price,
    budget_sentence,
    money,
    month_cost,
    month_of,
    next_month,
)
from tests.domain.cases import laws

MONTH = datetime(2026, 11, 1, tzinfo=UTC)
HALF = datetime(2026, 11, 16, tzinfo=UTC)
PRICE = Price(Decimal("0.02"), "EUR", Decimal(100))
GB = 10**9
# Hypothesis adds the zone.
SPAN = (datetime(2026, 1, 1), datetime(2027, 12, 31))  # noqa: DTZ001


def month(used: int, since: datetime | None = MONTH, price: Price | None = PRICE) -> MonthCost:
    return month_cost(used=used, since=since, price=price, now=HALF)


def test_half_a_month_is_doubled_and_compared_with_the_budget() -> None:
    found = month(3_000 * GB)
    assert (found.cost, found.forecast_bytes, found.forecast) == (60, 6_000 * GB, 120)
    assert (found.share, found.is_whole) == (120.0, True)
    assert budget_sentence(found) == (
        "will cost 120.00 EUR this month, 120 % of its budget of 100.00 EUR; 60.00 EUR so far"
    )


def test_what_is_not_known_has_no_figure() -> None:
    nothing = month(0, since=None)
    assert (nothing.cost, nothing.forecast, nothing.share, nothing.is_whole) == (
        None, None, None, False
    )  # fmt: skip
    young = month(GB, since=HALF - timedelta(hours=5))
    assert (young.cost, young.forecast, young.is_whole) == (Decimal("0.02"), None, False)
    assert budget_sentence(young) == "has no forecast of its cost yet"
    free = month(GB, price=None)
    assert (free.cost, free.forecast, free.share) == (None, None, None)
    assert free.forecast_bytes == 2 * GB
    assert budget_sentence(month(GB, price=Price(Decimal(1), "EUR"))) == "has no budget"


def test_a_flow_that_began_yesterday_is_not_forecast_as_if_it_had_rested_all_month() -> None:
    def began(at: datetime) -> MonthCost:
        return month_cost(used=10 * GB, since=MONTH, price=PRICE, now=HALF, began=at)

    day = timedelta(days=1)
    assert began(HALF - day).forecast_bytes == 160 * GB
    assert began(MONTH - day).forecast_bytes == 20 * GB
    young = began(HALF - timedelta(hours=5))
    assert (young.forecast, young.share, young.cost) == (None, None, Decimal("0.20"))


@laws
@given(
    used=st.integers(0, 10**18),
    at=st.datetimes(*SPAN, timezones=st.just(UTC)),
    known=st.timedeltas(timedelta(0), timedelta(days=40)),
)
def test_a_forecast_is_never_below_what_was_sent(used: int, at: datetime, known: timedelta) -> None:
    found = month_cost(used=used, since=at - known, price=PRICE, now=at)
    assert month_of(at) <= at < next_month(month_of(at))
    if found.forecast_bytes is not None:
        assert found.forecast_bytes >= used
        assert found.forecast is not None
        assert found.cost is not None
        assert found.forecast >= found.cost == Decimal(used) / GIGABYTE * PRICE.per_gb


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "unknown"), (Decimal(0), "0.00 EUR"), (Decimal("0.0123"), "0.0123 EUR"),
     (Decimal("0.00004"), "< 0.0001 EUR"),
     (Decimal("1234.5"), "1,234.50 EUR")],
)  # fmt: skip
def test_money_is_readable(amount: Decimal | None, text: str) -> None:
    assert money(amount, "EUR") == text

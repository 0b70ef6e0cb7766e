"""Advice that saves transfer: with figures where they are known, none where nothing is known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.topics.compression import CompressionSample, best_saving
from monitoring.domain.cost_advice import Advice, Readers, advise
from monitoring.domain.costs import MonthCost, Price, month_cost
from tests.domain.cases import laws

MONTH = datetime(2026, 11, 1, tzinfo=UTC)
HALF = datetime(2026, 11, 16, tzinfo=UTC)
PRICE = Price(Decimal("0.02"), "EUR", Decimal(100))
GB = 10**9
READ = Readers({"orders"}, {})


def month(used: int, since: datetime = MONTH) -> MonthCost:
    return month_cost(used=used, since=since, price=PRICE, now=HALF)


def advised(**facts: Any) -> Sequence[Advice]:
    used = facts.get("by_topic", {"orders": GB})
    plain = {"by_topic": used, "readers": READ, "samples": {}, "month": month(sum(used.values()))}
    return advise(**{**plain, "price": PRICE, "mean_rate": None, "peak_rate": None, **facts})


def sample(**sizes: Any) -> CompressionSample:
    plain = {"codec": "lz4", "records": 3_000, "batches": 1_000, "bytes": 1_000_000}
    same = dict.fromkeys(("codec_bytes", "batches_bytes", "both_bytes"), 1_000_000)
    return CompressionSample(**{**plain, **same, **sizes})


def test_unread_topics_are_named_with_what_they_cost() -> None:
    used = {"orders": 1_500 * GB, "debug": 1_400 * GB, "trace": 100 * GB, "idle": 0}
    # Understudy itself reads these, so nobody must exclude them.
    used |= {"heartbeats": 1, "east.heartbeats": 1}
    [unread] = advised(by_topic=used, mean_rate=10.0, peak_rate=20.0)
    assert (unread.code, unread.bytes, unread.saves) == ("unread", 3_000 * GB, 60)
    assert "2 topics (debug, trace)" in unread.sentence
    assert "50% of the flow. That is 60.00 EUR a month." in unread.sentence


def test_without_a_survey_of_groups_nothing_is_claimed() -> None:
    [found] = advised(readers=None, price=None)
    assert (found.code, found.bytes, found.saves) == ("unsurveyed", None, None)


def test_a_topic_whose_readers_do_not_advance_for_a_week_is_named() -> None:
    used = {"orders": 1_500 * GB, "debug": 1_500 * GB}
    idle = {"orders": timedelta(days=6), "debug": timedelta(days=9), "gone": timedelta(days=99)}
    [found] = advised(by_topic=used, readers=Readers(used, idle))
    assert (found.code, found.bytes, found.saves) == ("idle", 3_000 * GB, 60)
    assert found.sentence.startswith(
        "For 9 days or more no consumer group has committed another offset in 1 topic (debug)"
    )


def test_a_peak_far_above_the_mean_suggests_a_limit() -> None:
    [found] = advised(mean_rate=1e6, peak_rate=4e6)
    assert found.code == "peak"
    assert "bandwidth.limit.bytes=2000000" in found.sentence


@pytest.mark.parametrize(
    ("sizes", "change", "share"),
    [
        ({"codec_bytes": 600_000, "both_bytes": 580_000}, "codec", 0.4),
        ({"batches_bytes": 700_000, "both_bytes": 690_000}, "batches", 0.3),
        ({"codec_bytes": 800_000, "batches_bytes": 700_000, "both_bytes": 400_000}, "both", 0.6),
    ],
)
def test_the_least_change_with_most_of_the_effect_is_advised(
    sizes: dict[str, int], change: str, share: float
) -> None:
    saving = best_saving(sample(**sizes))
    assert saving is not None
    assert (saving.change, saving.share) == (change, pytest.approx(share))


def test_compression_is_advised_with_bytes_and_money_of_a_month() -> None:
    used = {"orders": 1_000 * GB, "debug": 500 * GB}
    samples = {
        "orders": sample(codec_bytes=600_000, both_bytes=600_000),
        "debug": sample(both_bytes=100_000, codec="none"),
        "gone": sample(both_bytes=100_000),
    }
    debug, orders = advised(by_topic=used, readers=Readers(used, {}), samples=samples)
    assert [debug.topic, orders.topic] == ["debug", "orders"]
    assert (orders.bytes, orders.saves) == (800 * GB, 16)
    assert orders.sentence.startswith(
        "orders has lz4 and has 3 records per batch, by a sample of 1.0 MB. "
        "zstd would send 40% less: "
        "800 GB a month. That is 16.00 EUR a month."
    )
    assert "linger.ms" in debug.sentence


def test_a_saving_without_a_forecast_has_no_bytes_and_no_money() -> None:
    young = month(GB, since=HALF - timedelta(hours=1))
    [found] = advised(month=young, samples={"orders": sample(codec_bytes=600_000)})
    assert (found.bytes, found.saves) == (None, None)
    assert "zstd would send 40% less. Set" in found.sentence


@laws
@given(
    size=st.integers(1, 10**7),
    sizes=st.tuples(*[st.integers(0, 10**7)] * 3),
    records=st.integers(0, 10**5),
)
def test_no_saving_below_a_tenth_or_of_a_small_sample(
    size: int, sizes: tuple[int, int, int], records: int
) -> None:
    names = ("codec_bytes", "batches_bytes", "both_bytes")
    one = sample(bytes=size, records=records, **dict(zip(names, sizes, strict=True)))
    found = best_saving(one)
    if found is not None:
        assert 0.1 <= found.share <= 1 - min(sizes) / size
        assert records >= 100

"""Replication latency: exact over its parts, forgotten after a minute, unknown without records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.flows.latency import BUCKET_MS, Latency, LatencyWindow, add_up, latency_of
from tests.domain.cases import laws

STAMPS = st.lists(st.integers(0, 10_000), min_size=1, max_size=8)
NOW = 20_000


def of(stamps: list[int], now: int = NOW) -> Latency | None:
    return latency_of(
        records=len(stamps),
        timestamp_sum=sum(stamps),
        oldest=min(stamps, default=-1),
        newest=max(stamps, default=-1),
        now=now,
    )


@laws
@given(parts=st.lists(STAMPS, min_size=1, max_size=4))
def test_the_latency_of_all_records_is_that_of_their_parts(parts: list[list[int]]) -> None:
    every = [stamp for part in parts for stamp in part]
    found = add_up(of(part) for part in parts)
    assert found == of(every)
    assert found is not None
    assert found.min_ms <= found.mean_ms <= found.max_ms


def test_nothing_is_known_without_records_or_timestamps() -> None:
    assert of([]) is None
    assert of([-1]) is None
    assert add_up([None, None]) is None


def test_a_clock_that_is_ahead_gives_no_negative_latency() -> None:
    assert of([NOW + 500]) == Latency(1, 0, 0, 0)


def test_a_window_forgets_and_then_knows_nothing() -> None:
    window = LatencyWindow()
    assert window.read(0) is None
    window.add(Latency(2, 20, 5, 15), 10)
    window.add(Latency(1, 40, 40, 40), BUCKET_MS + 1)
    assert window.read(BUCKET_MS + 2) == Latency(3, 60, 5, 40)
    assert window.read(2 * BUCKET_MS) == Latency(1, 40, 40, 40)
    assert window.read(3 * BUCKET_MS) is None
    window.add(Latency(1, 7, 7, 7), 9 * BUCKET_MS)
    assert window.read(9 * BUCKET_MS) == Latency(1, 7, 7, 7)

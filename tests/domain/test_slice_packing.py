"""When partitions are packed again over the slices of a flow: when it pays, and never often."""

from __future__ import annotations

import dataclasses
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.flows.slice_packing import (
    EVEN_BELOW,
    HALF_LIFE_S,
    HOLD_S,
    LEAST_GAIN,
    OBSERVE_S,
    REST_S,
    STATES,
    UNEVEN_FROM,
    Balance,
    ByteRates,
    PackingMemory,
    PackingVerdict,
    assign_slices,
    balance_of,
    judge_packing,
    packing_weights,
)

MB = 1_000_000
PARTITIONS = st.tuples(st.sampled_from("abc"), st.integers(0, 20))
RATES = st.dictionaries(PARTITIONS, st.floats(0, 1e9), min_size=1, max_size=40)
DAY = 86_400


def balance(**facts: object) -> Balance:
    usual: dict[str, object] = {
        "slices": 4, "bytes_per_second": 50.0 * MB, "busiest": 2, "ratio": 2.0, "best": 1.1,
        "largest": "orders-0", "largest_share": 0.2,
    }  # fmt: skip
    return Balance(**{**usual, **facts})  # type: ignore[arg-type]


LONG_UNEVEN = PackingMemory(since=0.0, uneven_since=OBSERVE_S)
NOW = OBSERVE_S + HOLD_S


def judged(found: Balance | None = None, **changes: float | None) -> PackingVerdict:
    facts = {"lag_s": 0.0, "now": NOW, **changes}
    return judge_packing(found or balance(), LONG_UNEVEN, **facts)  # type: ignore[arg-type]


@given(RATES, st.integers(2, 8), st.randoms(use_true_random=False))
def test_the_best_packing_is_never_worse_and_packing_again_gains_nothing(
    rates: dict[tuple[str, int], float], count: int, chance: random.Random
) -> None:
    before = {tp: chance.randrange(count) for tp in rates}
    found = balance_of(rates, before, count)
    if found is None:
        assert sum(rates.values()) == 0
        return
    assert 1 - 1e-9 <= found.best <= found.ratio <= count + 1e-9
    packed = assign_slices(packing_weights(rates, rates), count)
    again = balance_of(rates, packed, count)
    assert again is not None
    assert again.gain < 1e-9
    verdict = judge_packing(again, LONG_UNEVEN, lag_s=0.0, now=NOW)
    assert verdict.state != "due"


@given(RATES, st.integers(1, 8))
def test_idle_partitions_are_spread_as_well(
    rates: dict[tuple[str, int], float], count: int
) -> None:
    idle = {("idle", number): 0.0 for number in range(80)}
    weights = packing_weights(rates, [*rates, *idle])
    packed = assign_slices(weights, count)
    loads = [0.0] * count
    for tp, index in packed.items():
        loads[index] += weights[tp] + 1
    even = sum(loads) / count
    assert max(loads) <= even + max(weights.values()) + 1


@pytest.mark.parametrize("seed", range(8))
def test_rates_that_wander_for_a_day_cause_few_packings(seed: int) -> None:
    """Even where the hot partitions change all the time, each packing waits twice as long."""
    chance, count = random.Random(seed), 4
    rates = {("t", number): float(MB) for number in range(24)}
    slices = assign_slices(packing_weights(rates, rates), count)
    memory, packed = PackingMemory(since=0.0), []
    for now in range(0, DAY, 30):
        if now % 600 == 0:
            hot = set(chance.sample(sorted(rates), 4))
            rates = {tp: 20.0 * MB if tp in hot else chance.random() * MB for tp in rates}
        found = balance_of(rates, slices, count)
        memory = memory.observe(found, now)
        if judge_packing(found, memory, lag_s=0.0, now=now).state == "due":
            slices = assign_slices(packing_weights(rates, rates), count)
            memory = memory.packed(now)
            packed.append(now)
    assert len(packed) <= 6
    waits = [after - before for before, after in itertools.pairwise(packed)]
    assert all(wait >= REST_S * 2**number for number, wait in enumerate(waits))


def test_a_steady_skew_is_packed_once_and_stays() -> None:
    rates = {("t", number): (9.0 if number % 4 == 0 else 1.0) * MB for number in range(16)}
    slices = {tp: tp[1] % 4 for tp in rates}
    memory, packed = PackingMemory(since=0.0), 0
    for now in range(0, DAY, 10):
        found = balance_of(rates, slices, 4)
        memory = memory.observe(found, now)
        verdict = judge_packing(found, memory, lag_s=0.0, now=now)
        if verdict.state == "due":
            assert now >= max(OBSERVE_S, HOLD_S)
            slices = assign_slices(packing_weights(rates, rates), 4)
            memory, packed = memory.packed(now), packed + 1
    assert (packed, verdict.state) == (1, "even")
    assert verdict.reason == (
        "The bytes are distributed evenly: the busiest of 4 slices has 1.0 times an even share."
    )


def test_uneven_begins_at_one_ratio_and_ends_at_a_lower_one() -> None:
    memory = PackingMemory(since=0.0)
    between = (EVEN_BELOW + UNEVEN_FROM) / 2
    assert memory.observe(balance(ratio=between), 1).uneven_since is None
    uneven = memory.observe(balance(ratio=UNEVEN_FROM), 2)
    assert uneven.uneven_since == 2
    assert uneven.observe(balance(ratio=between), 3) == uneven
    assert uneven.observe(balance(ratio=EVEN_BELOW - 0.01), 4).uneven_since is None
    assert uneven.observe(None, 4).uneven_since is None


def test_it_is_due_when_it_lasts_and_pays() -> None:
    verdict = judged()
    assert (verdict.state, verdict.ratio, verdict.best) == ("due", 2.0, 1.1)
    assert verdict.reason == (
        "Slice 2 copies 50% of the bytes, 2.0 times an even share of 4 slices. Packed by observed "
        "bytes it would be 1.1 times."
    )


@pytest.mark.parametrize(("changes", "state", "sentence"), [
    ({"now": NOW - 61}, "waits", "That is decided in 2 minutes if it stays so."),
    ({"lag_s": None}, "waits", "That waits until the lag of all partitions is known."),
    ({"lag_s": 30.0}, "waits", "That waits until the flow has caught up: a pause of seconds would "
     "delay its records noticeably now."),
    ({"lag_s": 600.0}, "due", "Packed by observed bytes it would be 1.1 times."),
])  # fmt: skip
def test_it_waits_for_a_moment_at_which_a_pause_is_small(
    changes: dict[str, float | None], state: str, sentence: str
) -> None:
    verdict = judged(**changes)
    assert verdict.state == state
    assert verdict.reason.endswith(sentence)


def test_one_hot_partition_is_named_and_nothing_is_packed_for_it() -> None:
    rates = {("hot", 0): 90.0 * MB} | {("t", number): 1.0 * MB for number in range(10)}
    slices = assign_slices(packing_weights(rates, rates), 4)
    found = balance_of(rates, slices, 4)
    assert found is not None
    assert found.gain < LEAST_GAIN
    verdict = judged(found)
    assert verdict.state == "indivisible"
    assert verdict.reason.endswith(
        "hot-0 alone has 90% of the bytes, and a partition cannot be divided."
    )


def test_few_bytes_are_left_where_they_are() -> None:
    assert judged(balance(bytes_per_second=1000.0)).state == "idle"


def test_what_is_not_known_says_so() -> None:
    assert judge_packing(None, LONG_UNEVEN, lag_s=0.0, now=NOW).state == "unknown"
    assert balance_of({}, {("t", 0): 0, ("t", 1): 1}, 2) is None
    assert balance_of({("t", 0): 5.0}, {("t", 0): 0}, 1) is None


def test_a_packing_waits_after_an_earlier_one_twice_as_long_each_time() -> None:
    memory, waits = PackingMemory(since=0.0), []
    for turn in range(4):
        memory = memory.packed(turn * DAY)
        waits.append(memory.may_pack_from - turn * DAY)
    assert waits == [REST_S, 2 * REST_S, 4 * REST_S, 8 * REST_S]


@given(st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 1000)), max_size=20))
def test_rates_forget_by_half_lives_and_are_never_negative(steps: list[tuple[int, float]]) -> None:
    rates, now = ByteRates(), 0.0
    for size, pause in steps:
        now += pause
        rates.add(("t", 0), size, now)
    before = rates.at(now).get(("t", 0), 0.0)
    assert before >= 0
    assert rates.at(now + HALF_LIFE_S).get(("t", 0), 0.0) == pytest.approx(before / 2)


def test_a_steady_rate_is_what_was_copied_per_second() -> None:
    rates = ByteRates()
    for second in range(3000):
        rates.add(("t", 0), 1000, float(second))
    assert rates.at(2999.0)["t", 0] == pytest.approx(1000, rel=0.02)


def test_a_verdict_of_a_later_version_is_read() -> None:
    verdict = judged()
    raw = {**dataclasses.asdict(verdict), "later": 1}
    assert PackingVerdict.from_dict(raw) == verdict
    assert PackingVerdict.from_dict({}) is None
    assert verdict.state in STATES

"""Which flow of a pool moves to which runner, and when."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.flows.slice_packing import (
    HOLD_S,
    LEAST_GAIN,
    LONGEST_REST_S,
    OBSERVE_S,
    REST_S,
    UNEVEN_FROM,
)
from mirrors.domain.runners import pools
from mirrors.domain.runners.pools import STATES, PlannedMove, PoolFlow, PoolRunner

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MB = 1e6


def runner(name: str, **facts: Any) -> PoolRunner:
    return PoolRunner(name=name, **{"free_slots": 1000, "is_automatic": True, **facts})


def flow(number: int, on: str, rate: float | None, **facts: Any) -> PoolFlow:
    return PoolFlow(
        id=number,
        name=f"f{number}",
        runner=on,
        bytes_per_second=rate,
        **{"partitions": 1, "slices": 1, **facts},
    )


def moved(flows: Sequence[PoolFlow], plan: Sequence[PlannedMove]) -> list[PoolFlow]:
    placed = {each.id: each for each in flows}
    for move in plan:
        assert placed[move.flow].runner == move.before
        placed[move.flow] = dataclasses.replace(placed[move.flow], runner=move.to)
    return list(placed.values())


RUNNERS = st.lists(
    st.builds(
        PoolRunner,
        name=st.sampled_from("abcd"),
        free_slots=st.none() | st.integers(0, 6),
        refuses=st.sampled_from(["", "", "It is degraded."]),
        uneven_since=st.none() | st.just(NOW),
        is_automatic=st.booleans(),
    ),
    unique_by=lambda each: each.name,
    max_size=4,
)
RATES = st.none() | st.just(0.0) | st.floats(0, 100 * MB)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[PoolRunner], list[PoolFlow]]:
    runners = draw(RUNNERS)
    if not runners:
        return [], []
    flows = [
        flow(
            number,
            draw(st.sampled_from(runners)).name,
            draw(RATES),
            partitions=draw(st.integers(0, 50)),
            slices=draw(st.integers(1, 4)),
            stays=draw(st.sampled_from(["", "", "", "It is paused."])),
        )
        for number in range(draw(st.integers(0, 8)))
    ]
    return runners, flows


def highest(runners: Sequence[PoolRunner], flows: Sequence[PoolFlow]) -> float:
    return max((load.weight or 0.0 for load in pools.loads_of(runners, flows)), default=0.0)


@given(scenes())
def test_a_plan_is_never_worse_and_a_second_plan_is_empty(
    scene: tuple[list[PoolRunner], list[PoolFlow]],
) -> None:
    runners, flows = scene
    plan = pools.plan(runners, flows)
    after = moved(flows, plan)
    assert highest(runners, after) <= highest(runners, flows) * (1 + 1e-9)
    for number, move in enumerate(plan):
        assert move.after_ratio <= move.before_ratio * (1 + 1e-9) or any(
            # An empty runner that accepts no flow is not compared, which changes the even share.
            each.refuses
            for each in runners
        )
        before = moved(flows, plan[:number])
        weights = {load.runner: load.weight or 0.0 for load in pools.loads_of(runners, before)}
        then = {
            load.runner: load.weight or 0.0
            for load in pools.loads_of(runners, moved(flows, plan[: number + 1]))
        }
        assert max(then[move.before], then[move.to]) <= weights[move.before] * (
            1 - LEAST_GAIN + 1e-6
        )
    free = {each.name: each.free_slots for each in runners}
    slots = {each.id: each.slices for each in flows}
    for move in plan:
        for name, part in ((move.before, slots[move.flow]), (move.to, -slots[move.flow])):
            if (known := free[name]) is not None:
                free[name] = known + part
    calm = [
        dataclasses.replace(each, free_slots=free[each.name], uneven_since=None) for each in runners
    ]
    assert len(plan) < pools.LONGEST_PLAN
    assert pools.plan(calm, after) == ()


@given(scenes())
def test_only_flows_and_runners_that_may_take_part(
    scene: tuple[list[PoolRunner], list[PoolFlow]],
) -> None:
    runners, flows = scene
    known = {each.name: each for each in runners}
    of = {each.id: each for each in flows}
    unknown = {each.runner for each in flows if each.bytes_per_second is None}
    for move in pools.plan(runners, flows):
        assert not of[move.flow].stays
        assert not known[move.to].refuses
        assert known[move.to].free_slots is not None
        assert not unknown & {move.before, move.to}
    verdict = pools.judge(runners, flows)
    assert verdict.state in STATES
    assert verdict.reason
    assert (verdict.state == "due") == bool(verdict.plan)
    assert len(verdict.loads) == len(runners)
    chosen = pools.choose(runners, flows, "x")
    assert chosen == "x" or not known[chosen].refuses


def test_a_move_says_what_it_brings() -> None:
    flows = [flow(1, "a", 30 * MB), flow(2, "a", 30 * MB), flow(3, "a", 30 * MB)]
    verdict = pools.judge([runner("a"), runner("b")], flows)
    assert (verdict.state, verdict.ratio) == ("due", 2.0)
    assert verdict.reason == "a has 2.0 times an even share of 2 runners."
    (move,) = verdict.plan
    assert (move.name, move.before, move.to) == ("f1", "a", "b")
    assert (move.before_ratio, move.after_ratio) == (2.0, pytest.approx(4 / 3))
    assert move.reason == (
        "a has 2.0 times an even share of the load, b 0.0 times. With f1 (30 MB per second, 1 "
        "partition) on b they have 1.3 and 0.7 times."
    )


def test_one_big_flow_is_not_moved_back_and_forth() -> None:
    verdict = pools.judge([runner("a"), runner("b")], [flow(1, "a", 90 * MB)])
    assert (verdict.state, verdict.plan) == ("indivisible", ())
    assert "f1 has 100% of its bytes, and a flow is not divided over runners." in verdict.reason
    # One move separates it from the others; the next plan leaves it where it is.
    flows = [flow(1, "a", 90 * MB), flow(2, "a", 20 * MB), flow(3, "a", 20 * MB)]
    plan = pools.plan([runner("a"), runner("b")], flows)
    assert [(move.name, move.to) for move in plan] == [("f1", "b")]
    assert pools.plan([runner("a"), runner("b")], moved(flows, plan)) == ()


def test_an_unknown_rate_is_not_zero() -> None:
    flows = [flow(1, "a", 60 * MB), flow(2, "a", 60 * MB), flow(3, "b", None)]
    verdict = pools.judge([runner("a"), runner("b")], flows)
    assert (verdict.state, verdict.ratio) == ("unknown", 1.0)
    assert "b is not compared: the rate of f3 is unknown." in verdict.reason
    # The rest of the pool is judged without it.
    verdict = pools.judge([runner("a"), runner("b"), runner("c")], flows)
    assert [(move.before, move.to) for move in verdict.plan] == [("a", "c")]
    assert "b is not compared" in verdict.reason
    assert pools.choose([runner("a"), runner("b")], flows, "b") == "a"


def test_a_runner_without_a_known_rate_has_no_sum() -> None:
    flows = [flow(1, "a", None), flow(2, "a", None), flow(3, "b", None), flow(4, "b", MB)]
    flows += [flow(5, "c", None), flow(6, "c", 0.0)]
    loads = pools.loads_of([runner(name) for name in "abcd"], flows)
    # A lower bound of 0 is no statement either.
    assert [load.bytes_per_second for load in loads] == [None, MB, None, 0.0]


def test_idle_flows_are_distributed_by_their_partitions() -> None:
    flows = [flow(1, "a", 50 * MB, partitions=10), flow(2, "b", 50 * MB, partitions=1000)]
    loads = pools.loads_of([runner("a"), runner("b")], flows)
    assert loads[0].ratio is not None
    assert loads[1].ratio is not None
    assert loads[0].ratio < 1 < loads[1].ratio


def test_a_pool_of_little_traffic_or_one_runner_is_left_alone() -> None:
    flows = [flow(1, "a", 1e5), flow(2, "a", 1e5)]
    assert pools.judge([runner("a"), runner("b")], flows).state == "idle"
    assert pools.judge([runner("a")], flows).state == "alone"
    assert pools.judge([], []).state == "alone"


def test_slots_and_refusals_are_named() -> None:
    flows = [flow(1, "a", 60 * MB, slices=4), flow(2, "a", 60 * MB, slices=4)]
    for slots in (3, None):
        verdict = pools.judge([runner("a"), runner("b", free_slots=slots)], flows)
        assert verdict.state == "indivisible"
        assert "fit into the slots of another runner" in verdict.reason
    verdict = pools.judge([runner("a"), runner("b", refuses="b is being deleted.")], flows)
    assert verdict.state in ("unknown", "indivisible")
    busy = [*flows, flow(3, "b", 1 * MB)]
    verdict = pools.judge([runner("a"), runner("b", refuses="b is being deleted.")], busy)
    assert verdict.reason.endswith("No other runner takes flows. b is being deleted.")
    pinned = [dataclasses.replace(each, stays="f1 is pinned.") for each in flows]
    assert "None of its flows may move. f1 is pinned." in pools.judge(
        [runner("a"), runner("b")], pinned
    ).reason  # fmt: skip


def automatic(
    flows: Sequence[PoolFlow],
    *,
    uneven_for: float = HOLD_S,
    moves: dict[int, list[datetime]] | None = None,
    **facts: Any,
) -> pools.AutomaticMove:
    since = NOW - timedelta(seconds=uneven_for)
    runners = [runner("a", uneven_since=since, **facts), runner("b", **facts)]
    return pools.automatic_move(runners, flows, moved=moves or {}, now=NOW)


def test_a_move_without_a_person_waits_until_it_stays_so() -> None:
    flows = [flow(1, "a", 30 * MB), flow(2, "a", 30 * MB)]
    due = automatic(flows)
    assert due.move is not None
    assert due.move.name == "f1"
    assert automatic(flows, is_automatic=False).reason == "Flows move only on request."
    early = automatic(flows, uneven_for=HOLD_S - 90)
    assert (early.move, early.reason) == (None, "f1 moves to b in 2 minutes if it stays so.")
    # Rates need time to show the last move.
    just = {9: [NOW - timedelta(seconds=OBSERVE_S - 30)]}
    assert automatic(flows, moves=just).reason == "f1 moves to b in 1 minute if it stays so."


def test_a_flow_that_moved_rests_twice_as_long_each_time() -> None:
    flows = [flow(1, "a", 30 * MB), flow(2, "a", 40 * MB, stays="f2 is pinned.")]

    def after(seconds: float, *, times: int) -> bool:
        at = NOW - timedelta(seconds=seconds)
        return automatic(flows, moves={1: [at] * times}).move is not None

    assert not after(REST_S - 1, times=1)
    assert after(REST_S, times=1)
    assert not after(2 * REST_S - 1, times=2)
    assert after(2 * REST_S, times=2)
    assert after(LONGEST_REST_S, times=100)


def test_uneven_begins_at_one_ratio_and_ends_at_a_lower_one() -> None:
    (load, _) = pools.loads_of([runner("a"), runner("b")], [flow(1, "a", MB)])

    def then(ratio: float | None, since: datetime | None, **facts: Any) -> datetime | None:
        return pools.next_uneven_since(
            runner("a", uneven_since=since), dataclasses.replace(load, ratio=ratio, **facts), NOW
        )

    earlier = NOW - timedelta(hours=1)
    assert then(UNEVEN_FROM, None) == NOW
    assert then(1.4, None) is None
    assert then(1.4, earlier) == earlier
    assert then(1.2, earlier) is None
    assert then(None, earlier, unknown=("f2",)) == earlier

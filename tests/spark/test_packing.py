"""How partitions are assigned to slices, and slots to flows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.flows.slice_packing import assign_slices
from spark_runner.spark.slots import Slots

PARTITIONS = st.tuples(st.sampled_from("abc"), st.integers(0, 30))
WEIGHTS = st.dictionaries(PARTITIONS, st.integers(0, 10**12), max_size=40)


@given(WEIGHTS, st.integers(1, 8))
def test_every_partition_has_one_slice_and_no_slice_is_empty(
    weights: dict[tuple[str, int], int], most: int
) -> None:
    packed = assign_slices(weights, most)
    assert packed.keys() == weights.keys()
    assert set(packed.values()) == set(range(min(most, len(weights))))


@given(WEIGHTS, WEIGHTS, st.integers(1, 8))
def test_packing_again_moves_nothing(
    before: dict[tuple[str, int], int], new: dict[tuple[str, int], int], most: int
) -> None:
    packed = assign_slices(before, most)
    later = assign_slices({**before, **new}, most, packed)
    assert {tp: later[tp] for tp in before} == packed
    assert max(later.values(), default=0) < most


@given(WEIGHTS, WEIGHTS, st.integers(2, 8))
def test_with_fewer_slots_no_partition_moves_to_a_slice_that_does_not_fence_its_own(
    before: dict[tuple[str, int], int], new: dict[tuple[str, int], int], most: int
) -> None:
    packed = assign_slices(before, most)
    later = assign_slices({**before, **new}, most - 1, packed)
    assert {tp: later[tp] for tp in before} == packed
    assert all(later[tp] < most - 1 for tp in new.keys() - before.keys())


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(1, 8))
def test_no_slice_is_heavier_than_an_even_share_and_the_heaviest_partition(
    loads: list[int], most: int
) -> None:
    weights = {("t", number): load for number, load in enumerate(loads)}
    sums = [0] * most
    for tp, index in assign_slices(weights, most).items():
        sums[index] += weights[tp] + 1
    assert max(sums) <= sum(w + 1 for w in loads) / min(most, len(loads)) + max(loads) + 1


def test_slots_are_held_shared_out_and_given_back() -> None:
    slots = Slots(lambda: 4)
    assert slots.hold(1, 3)
    assert not slots.hold(2, 2)
    assert (slots.free_for(1), slots.free_for(2), slots.used) == (4, 1, 3)
    assert slots.hold(1, 2)
    assert slots.hold(2, 2)
    slots.release(1)
    assert slots.free_for(2) == 4


def test_a_flow_keeps_its_slots_when_the_runner_has_lost_some() -> None:
    totals = [4]
    slots = Slots(lambda: totals[0])
    assert slots.hold(1, 3)
    totals[0] = 2
    assert slots.hold(1, 3)
    assert not slots.hold(1, 4)
    assert not slots.hold(2, 1)
    assert (slots.free_for(1), slots.free_for(2)) == (3, 0)

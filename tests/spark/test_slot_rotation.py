"""Which slice yields its slot when slots are short: as many as wait, the oldest first."""

from __future__ import annotations

import dataclasses
import itertools

from spark_runner.slices.rotation import ROTATING, SlotRotation


@dataclasses.dataclass(eq=False)
class Slice:
    """One slice of a flow; `since` is when its epoch got its slot or began to wait for one."""

    flow: int
    index: int
    since: float
    has_slot: bool = True
    gave_way: bool = False

    def working_s(self, now: float) -> float:
        return now - self.since if self.has_slot else 0.0

    def waiting_s(self, now: float) -> float:
        return 0.0 if self.has_slot else now - self.since

    def release_slot(self) -> None:
        self.gave_way = True


def heard(turns: SlotRotation, slices: list[Slice], now: float) -> list[tuple[int, int]]:
    """Every flow says once how it is; who was told to give way in all, as (flow, index)."""
    flows = itertools.groupby(sorted(slices, key=lambda one: one.flow), key=lambda one: one.flow)
    for number, (flow, own) in enumerate(flows):
        turns.rotate(flow, list(own), now + 0.1 * number)
    return [(one.flow, one.index) for one in slices if one.gave_way]


def acquainted(slices: list[Slice], now: float = 102.0) -> SlotRotation:
    """Each flow knows of the others, and nobody has waited long yet."""
    turns = SlotRotation()
    assert heard(turns, slices, now) == []
    return turns


def spark_serves(slices: list[Slice], now: float) -> None:
    """Who gave way ends and queues up again; free slots go to those that wait longest."""
    ended = [one for one in slices if one.gave_way]
    waiting = sorted((one for one in slices if not one.has_slot), key=lambda one: one.since)
    for one in ended:
        one.has_slot, one.gave_way, one.since = False, False, now
    for one in waiting[: len(ended)]:
        one.has_slot, one.since = True, now


def test_of_all_flows_as_many_give_way_as_wait() -> None:
    slices = [Slice(flow, index, since=flow + index) for flow in range(3) for index in range(2)]
    waiting = Slice(3, 0, since=100, has_slot=False)
    turns = acquainted([*slices, waiting])
    heard(turns, [*slices, waiting], 104)
    for now in (105.0, 106.0, 107.0):
        assert heard(turns, [*slices, waiting], now) == [(0, 0)]


def test_those_that_had_their_slot_longest_of_whatever_flow() -> None:
    had = {(0, 0): 50.0, (0, 1): 10.0, (1, 0): 20.0, (1, 1): 60.0, (2, 0): 30.0}
    slices = [Slice(flow, index, since) for (flow, index), since in had.items()]
    waiting = [Slice(3, index, since=100, has_slot=False) for index in range(3)]
    turns = acquainted([*slices, *waiting])
    heard(turns, [*slices, *waiting], 104)
    assert heard(turns, [*slices, *waiting], 105) == [(0, 1), (1, 0), (2, 0)]


def test_a_slot_on_its_way_is_not_given_again() -> None:
    """Between the end of one task and the beginning of the next one, each flow has its say."""
    slices = [Slice(0, 0, since=1), Slice(1, 0, since=2), Slice(2, 0, since=3)]
    waiting = Slice(3, 0, since=100, has_slot=False)
    turns = acquainted([*slices, waiting])
    heard(turns, [*slices, waiting], 104)
    assert heard(turns, [*slices, waiting], 105) == [(0, 0)]
    slices[0].has_slot, slices[0].gave_way, slices[0].since = False, False, 105.5
    assert heard(turns, [*slices, waiting], 106) == []
    assert heard(turns, [*slices, waiting], 107) == []
    waiting.has_slot, waiting.since = True, 107.5
    assert heard(turns, [*slices, waiting], 108) == []
    # The one that gave way waits now; of the others flow 1 had its slot longest.
    heard(turns, [*slices, waiting], 109)
    assert heard(turns, [*slices, waiting], 110) == [(1, 0)]


def test_one_that_takes_long_to_end_is_waited_for() -> None:
    slices = [Slice(0, 0, since=1), Slice(1, 0, since=2)]
    waiting = Slice(2, 0, since=100, has_slot=False)
    turns = acquainted([*slices, waiting])
    told = [heard(turns, [*slices, waiting], 104.0 + second) for second in range(20)]
    assert told[1] == told[-1] == [(0, 0)]


def test_a_slot_that_somebody_else_took_is_asked_for_again() -> None:
    slices = [Slice(0, 0, since=1), Slice(1, 0, since=2)]
    waiting = Slice(2, 0, since=100, has_slot=False)
    turns = acquainted([*slices, waiting])
    heard(turns, [*slices, waiting], 104)
    assert heard(turns, [*slices, waiting], 105) == [(0, 0)]
    slices[0].gave_way, slices[0].since = False, 105.5
    told = [heard(turns, [*slices, waiting], 106.0 + second) for second in range(10)]
    assert told[0] == []
    assert told[-1] == [(1, 0)]


def test_who_got_its_slot_just_now_keeps_it() -> None:
    slices = [Slice(0, 0, since=102.5), Slice(1, 0, since=104)]
    waiting = Slice(2, 0, since=100, has_slot=False)
    turns = SlotRotation()
    told = [heard(turns, [*slices, waiting], 105.0 + second) for second in range(4)]
    assert told == [[], [], [], [(0, 0)]]


def test_nobody_gives_way_to_a_flow_that_stopped() -> None:
    slices = [Slice(0, 0, since=1), Slice(1, 0, since=2, has_slot=False)]
    turns = SlotRotation()
    turns.rotate(1, slices[1:], 110)
    turns.forget(1)
    assert heard(turns, slices[:1], 110.5) == []
    # One that is not heard of any more is forgotten by itself.
    turns.rotate(1, slices[1:], 111)
    assert heard(turns, slices[:1], 120) == []


def test_every_slice_has_its_turn_and_nobody_ends_in_vain() -> None:
    """Three flows of four slices on nine slots, ten minutes long."""
    slices = [Slice(flow, index, since=0) for flow in range(3) for index in range(4)]
    for one in slices[9:]:
        one.has_slot = False
    turns, began = SlotRotation(), dict.fromkeys(map(id, slices), 0)
    for second in range(1, 600):
        waiting = sum(not one.has_slot for one in slices)
        assert len(heard(turns, slices, second)) <= waiting
        before = {id(one) for one in slices if one.has_slot}
        spark_serves(slices, second + 0.5)
        assert sum(one.has_slot for one in slices) == 9
        for one in slices:
            began[id(one)] += one.has_slot and id(one) not in before
    assert min(began.values()) > 5
    assert max(began.values()) - min(began.values()) <= 3


def test_nobody_gives_way_to_a_slice_that_starts_while_a_slot_is_free() -> None:
    slices = [Slice(0, 0, since=1), Slice(1, 0, since=100, has_slot=False)]
    free = [1]
    turns = SlotRotation(lambda: free[0])
    for now in (104, 105):
        assert heard(turns, slices, now) == []
    assert turns.reason(0, 105) == ""
    free[0] = 0
    assert heard(turns, slices, 106) == [(0, 0)]


def test_only_the_flow_that_gave_says_so() -> None:
    slices = [Slice(0, 0, since=1), Slice(1, 0, since=2)]
    turns = SlotRotation()
    for now in (109, 110):
        heard(turns, [*slices, Slice(2, 0, since=100, has_slot=False)], now)
    assert turns.reason(0, 111) == ROTATING
    assert turns.reason(1, 111) == turns.reason(2, 111) == ""
    assert turns.reason(0, 200) == ""

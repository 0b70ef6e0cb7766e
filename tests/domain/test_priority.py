"""Priority classes: membership, and that no flow is starved while the shares hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.explanation import explain_topic
from mirrors.domain.flows.bandwidth import allocate
from mirrors.domain.topics.priority import WEIGHTS, FetchOrder, PriorityRules, Rank
from tests.domain.cases import flow, laws, settings

RANKS: tuple[Rank, ...] = ("high", "normal", "low")
LARGEST = 1000


def test_a_topic_is_of_the_first_class_that_names_it_and_says_by_which_pattern() -> None:
    ranks = PriorityRules(
        settings(topics_priority_high="pay, orders.*", topics_priority_low=".*log")
    )
    said = {name: ranks.of(name) for name in ("pay", "orders.log", "app.log", "clicks")}
    assert [ranking.rank for ranking in said.values()] == ["high", "high", "low", "normal"]
    assert said["orders.log"].reason == (
        "has priority high: matches topics.priority.high (orders.*)"
    )
    assert said["app.log"].reason == "has priority low: matches topics.priority.low (.*log)"
    assert said["clicks"].reason == (
        "has priority normal: matches neither topics.priority.high nor topics.priority.low"
    )
    assert ranks.are_used
    assert not PriorityRules(settings()).are_used


def test_the_explanation_of_a_topic_names_its_class_and_why() -> None:
    def told(topic: str, **keys: str) -> tuple[bool | None, str]:
        rules = explain_topic(topic, flow("a", "b", **keys)).rules
        [found] = [rule for rule in rules if rule.rule == "priority"]
        return found.passed, found.reason

    named = {"topics_priority_low": "logs"}
    assert told("logs", **named) == (
        True,
        "has priority low: matches topics.priority.low (logs)",
    )
    assert told("logs") == (None, "not evaluated: the flow has no priority classes")
    assert told("logs", topics="x", **named)[0] is None


class Simulation:
    """A broker that gives each turn what the test says, and what each class got of it."""

    def __init__(self) -> None:
        self.order = FetchOrder()
        self.got: dict[Rank, int] = dict.fromkeys(RANKS, 0)

    def step(self, waiting: frozenset[Rank], size: int) -> Rank | None:
        rank = self.order.next(waiting)
        if rank is not None:
            self.order.took(rank, size)
            self.got[rank] += size
        return rank


_waiting = st.frozensets(st.sampled_from(RANKS))
_steps = st.lists(st.tuples(_waiting, st.integers(1, LARGEST)), max_size=60)


@laws
@given(
    before=_steps,
    pair=st.sampled_from([("high", "low"), ("high", "normal"), ("normal", "low")]),
    during=_steps,
)
def test_two_classes_that_wait_the_whole_time_share_by_weight_but_for_one_reply_each(
    before: list[tuple[frozenset[Rank], int]],
    pair: tuple[Rank, Rank],
    during: list[tuple[frozenset[Rank], int]],
) -> None:
    simulation = Simulation()
    for waiting, size in before:
        simulation.step(waiting, size)
    # From here on both wait, whatever other classes did before.
    simulation.order.next(frozenset())
    simulation.got = dict.fromkeys(RANKS, 0)
    for waiting, size in during:
        simulation.step(waiting | set(pair), size)
        one, other = (simulation.got[rank] / WEIGHTS[rank] for rank in pair)
        slack = sum(LARGEST / WEIGHTS[rank] for rank in pair)
        assert abs(one - other) <= slack


@laws
@given(before=_steps, others=st.lists(_waiting, min_size=13, max_size=13))
def test_whoever_waits_gets_a_turn_before_long(
    before: list[tuple[frozenset[Rank], int]], others: list[frozenset[Rank]]
) -> None:
    for rank in RANKS:
        simulation = Simulation()
        for waiting, size in before:
            simulation.step(waiting, size)
        simulation.order.next(frozenset())
        turns = [simulation.step(waiting | {rank}, LARGEST) for waiting in others]
        assert rank in turns, "8 + 4 + 1: of thirteen equal replies each class has its own"


@laws
@given(before=_steps, waiting=_waiting)
def test_only_who_waits_has_a_turn_and_who_waits_alone_has_all(
    before: list[tuple[frozenset[Rank], int]], waiting: frozenset[Rank]
) -> None:
    simulation = Simulation()
    for earlier, size in before:
        rank = simulation.step(earlier, size)
        assert rank in earlier if earlier else rank is None
    assert len(waiting) != 1 or simulation.step(waiting, 1) in waiting


def test_of_those_that_begin_together_the_higher_class_goes_first() -> None:
    simulation = Simulation()
    turns = [simulation.step(frozenset(RANKS), 100) for _ in range(26)]
    assert turns[:3] == ["high", "normal", "low"]
    assert [turns.count(rank) for rank in RANKS] == [16, 8, 2]


@laws
@given(
    limit=st.integers(1000, 10**9),
    weights=st.dictionaries(st.integers(0, 9), st.sampled_from([1, 4, 8]), min_size=1),
)
def test_slices_that_are_held_back_share_the_limit_by_what_waits_in_them(
    limit: int, weights: dict[int, int]
) -> None:
    shares = allocate(limit, dict.fromkeys(weights), weights)
    assert sum(shares.values()) <= limit
    least = 0.1 * limit / len(weights)
    for index, share in shares.items():
        assert share >= int(least), "none is left without"
        for other, weight in weights.items():
            assert weights[index] < weight or share >= shares[other]

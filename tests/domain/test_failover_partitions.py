"""What a plan says of topics that are not replicated: properties, blockers, decisions."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.account.counted_range import CountedRange
from mirrors.domain.failover.left_behind import LeftBehind
from mirrors.domain.failover.plan import plan_failover
from mirrors.domain.failover.plan_types import FailoverSnapshot, GroupSnapshot, PartitionSnapshot
from mirrors.domain.gaps.lost_ranges import GapFacts
from tests.domain.cases import laws
from tests.domain.test_failover import NOW, codes, make_group_partition, partition, picture

CODES = ("", "", "cannot_be_created", "not_described", "not_copied")
numbers = st.none() | st.integers(0, 500)


def decision(topic: str = "orders", number: int | None = None) -> LeftBehind:
    return LeftBehind(
        topic=topic, partition=number, reason="moved", decided_by="ann", decided_at=NOW
    )


@st.composite
def rows(draw: st.DrawFn) -> tuple[PartitionSnapshot, ...]:
    found = []
    for number in range(draw(st.integers(0, 5))):
        code = draw(st.sampled_from(CODES))
        start = draw(st.integers(0, 100))
        end = draw(st.none() | st.integers(start, 500))
        found.append(
            partition(
                partition=number,
                position=None if code else draw(numbers),
                source_start=start if end is not None else None,
                source_end=end,
                source_end_at=draw(st.none() | st.just(NOW - 5_000)),
                counted=draw(
                    st.none() | st.just(CountedRange(start, end or start, (end or start) - start))
                ),
                code=code,
            )
        )
    return tuple(found)


def most_owed(row: PartitionSnapshot) -> int:
    """All that the source holds of it, beyond what is certainly copied."""
    end, start = row.source_end or 0, row.source_start or 0
    if row.position is None or (row.source_end_at is None and end < row.position):
        return end - start
    return max(0, end - row.position)


@laws
@given(seen=rows(), left=st.sets(st.integers(0, 5)))
def test_every_selected_partition_counts_once_whatever_becomes_of_it(
    seen: tuple[PartitionSnapshot, ...], left: set[int]
) -> None:
    decisions = tuple(decision(number=number) for number in sorted(left))
    plan = plan_failover(picture(partitions=seen, left_behind=decisions))
    names = [(row.topic, row.partition) for row in plan.every_partition]
    assert sorted(names) == sorted((row.topic, row.partition) for row in seen)
    assert plan.loss_unknown == sum(row.loss is None for row in plan.every_partition)
    assert (plan.loss is None) == (plan.loss_unknown > 0)
    fresh = [row for row in seen if row.source_end is not None and row.source_end_at is None]
    if len(fresh) == len(seen):
        assert plan.loss_known == sum(most_owed(row) for row in seen)
        assert plan.loss_certainty in ("counted", "at_most")
    # An earlier figure by offsets is no lower bound, and what nobody saw is not nothing.
    assert plan.loss_known <= sum(most_owed(row) for row in seen)
    if plan.loss_unknown:
        assert plan.loss_certainty in ("at_least", "unknown")
    assert {row.partition for row in plan.left_partitions} == left & {r.partition for r in seen}


@laws
@given(seen=rows())
def test_a_decision_passes_every_blocker_of_its_topic(seen: tuple[PartitionSnapshot, ...]) -> None:
    groups = (GroupSnapshot(group="billing", group_partitions=(make_group_partition(),)),)
    before = plan_failover(picture(partitions=seen, groups=groups))
    after = plan_failover(picture(partitions=seen, groups=groups, left_behind=(decision(),)))
    assert after.blockers == ()
    assert after.places == ()
    # Nothing of the amount is hidden by it.
    assert (after.loss_known, after.loss_unknown) == (before.loss_known, before.loss_unknown)
    assert after.pending == 0
    if seen:
        (left,) = after.left_behind
        assert left.groups == ("billing",)
        assert "by decision of ann (moved)" in left.sentence


def gap_of(kind: str, **facts: Any) -> GapFacts:
    return GapFacts(**{"kind": kind, "position": 90, "first": 0, "end": 100, **facts})


def blocked(**seen: Any) -> tuple[set[str], str]:
    plan = plan_failover(picture(partitions=(partition(**seen),), groups=()))
    return codes(plan), " ".join(one.sentence for one in plan.blockers)


def test_each_state_is_a_blocker_of_its_own_with_its_amount() -> None:
    found, words = blocked(facts=gap_of("recreated"), gap="Another topic of that name.")
    assert found == {"recreated"}
    assert "orders-0 was truncated or recreated on east. Another topic of that name." in words
    assert "Not replicated: at most 100 records." in words
    assert blocked(facts=gap_of("source_replaced"))[0] == {"source_replaced"}
    found, words = blocked(facts=gap_of("deleted", first=95), gap="Records were deleted.")
    assert found == {"gap"}
    assert (
        "orders-0 has an open gap: Records were deleted. Not replicated: at most 10 records."
        in words
    )
    assert blocked(source_end=40)[0] == {"recreated"}
    found, words = blocked(is_stopped=True, reason="The broker refuses it.")
    assert found == {"stalled"}
    assert "a switchover would never drain it: The broker refuses it." in words
    found, words = blocked(
        code="cannot_be_created", position=None, target_end=None, reason="Two topics meet."
    )
    assert found == {"cannot_be_created"}
    assert "orders (1 partition) cannot be created on the target. Two topics meet." in words
    assert "Not on west: at most 100 records." in words
    found, words = blocked(
        partition=-1, code="not_described", position=None, source_end=None, target_end=None
    )
    assert found == {"not_described"}
    assert "an unknown number of records" in words


def test_an_empty_partition_that_no_plan_has_named_blocks_nobody() -> None:
    assert blocked(code="not_copied", position=None, source_end=0, target_end=None)[0] == set()


def test_topics_that_are_hidden_from_us_are_an_unknown_loss() -> None:
    plan = plan_failover(picture(not_visible="The principal lacks Describe on orders.*."))
    assert codes(plan) == {"not_visible"}
    assert (plan.loss, plan.loss_known, plan.loss_unknown) == (None, 10, 1)
    assert [(row.topic, row.state) for row in plan.not_copied] == [("", "not_visible")]
    assert plan.loss_certainty == "at_least"
    assert plan.certainty == "unknown"


def test_an_earlier_figure_is_a_lower_bound_only_where_records_were_counted() -> None:
    def planned(**seen: Any) -> FailoverSnapshot:
        return picture(partitions=(partition(source_end_at=NOW - 19_000, **seen),))

    counted = plan_failover(planned(counted=CountedRange(90, 100, 10)))
    unread = plan_failover(planned())
    assert (counted.loss_known, counted.loss_certainty) == (10, "at_least")
    assert (unread.loss_known, unread.loss_certainty) == (0, "at_least")
    assert counted.loss_sentence == "at least 10 records"
    assert "(10 by offsets when last seen)" in unread.loss_sentence

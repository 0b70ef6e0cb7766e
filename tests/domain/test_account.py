"""Laws of the account: never more optimistic than the facts; no unknown part hides the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.account.counted_range import CountedRange
from mirrors.domain.account.partition import PartitionFacts, evaluate
from mirrors.domain.account.sentences import amount, owed, owed_as_of
from mirrors.domain.account.totals import OLD_AFTER_MS, combine, total
from mirrors.domain.gaps.lost_ranges import GapFacts, GapKind

OFFSET = st.integers(0, 2**40)
MAYBE = st.none() | OFFSET


def counted_range(first: int, offsets: int, share: float) -> CountedRange:
    return CountedRange(first, first + offsets, round(offsets * share))


FACTS = st.builds(
    PartitionFacts,
    topic=st.sampled_from(["orders", "payments"]),
    partition=st.integers(0, 5),
    position=MAYBE,
    first=MAYBE,
    end=MAYBE,
    observed_at=st.none() | st.integers(1, 10**6),
    time_lag_ms=st.none() | st.integers(0, 10**6),
    is_stopped=st.booleans(),
    code=st.sampled_from(["", "cannot_be_created", "not_described", "deleted_on_source"]),
    end_below_position=st.booleans(),
    is_left_behind=st.booleans(),
    counted=st.none() | st.builds(counted_range, OFFSET, OFFSET, st.floats(0, 1)),
)
COUNTED = CountedRange(0, 2485, 2485)


def recreated(first: int, end: int | None, *, position: int, kind: GapKind) -> PartitionFacts:
    gap = GapFacts(kind=kind, position=position, first=first, end=end)
    return PartitionFacts(
        topic="orders", partition=0, position=position, first=first, end=end, observed_at=1, gap=gap
    )


@pytest.mark.parametrize("kind", ["recreated", "source_replaced"])
@pytest.mark.parametrize("records", [200, 150, 500])
def test_of_another_generation_all_records_are_owed(kind: GapKind, records: int) -> None:
    found = evaluate(recreated(0, records, position=200, kind=kind))
    assert (found.records, found.certainty, found.state) == (records, "at_most", kind)


@pytest.mark.parametrize("kind", ["remote_recreated", "remote_missing", "target_replaced"])
def test_copies_that_are_gone_are_owed_again(kind: GapKind) -> None:
    assert evaluate(recreated(10, 90, position=90, kind=kind)).records == 80


def test_all_copies_are_owed_as_soon_as_a_task_finds_the_remote_topic_missing() -> None:
    facts = PartitionFacts(
        "orders", 0, position=90, end=90, observed_at=1, is_stopped=True, code="remote_missing"
    )
    assert evaluate(facts).records is None, "the log start is not known yet"
    assert evaluate(facts._replace(first=10)).records == 80


def test_a_truncated_log_owes_what_was_written_behind_the_cut() -> None:
    gap = GapFacts(kind="truncated", position=100, first=0, end=60)
    facts = PartitionFacts("orders", 0, position=100, first=0, end=75, observed_at=1, gap=gap)
    assert evaluate(facts).records == 15


def test_copies_that_the_target_lost_are_owed_beside_what_waits() -> None:
    gap = GapFacts(
        kind="remote_truncated", position=100, first=None, end=None, remote_end=40, remote_next=50
    )
    facts = PartitionFacts("orders", 0, position=100, end=105, observed_at=1, gap=gap)
    assert evaluate(facts).records == 15


def test_a_refused_topic_owes_all_that_the_source_holds() -> None:
    facts = PartitionFacts(
        "a.b.c", 0, first=4, end=508, observed_at=1, is_stopped=True, code="cannot_be_created"
    )
    assert evaluate(facts)[2:5] == ("cannot_be_created", 504, "at_most")


def test_an_end_below_the_position_is_not_in_step() -> None:
    found = evaluate(
        PartitionFacts("orders", 0, position=200, end=150, observed_at=1, end_below_position=True)
    )
    assert (found.state, found.records, found.certainty) == ("recreated", None, "unknown")
    assert "truncated or recreated" in found.reason


@given(FACTS)
def test_no_amount_is_unknown_and_zero_is_exact(facts: PartitionFacts) -> None:
    found = evaluate(facts)
    assert (found.records is None) == (found.certainty == "unknown")
    assert (found.records == 0) == (found.certainty == "counted")
    assert found.state != "in_step" or found.records == 0


@given(FACTS, st.integers(1, 10**6))
def test_more_on_the_source_never_owes_less(facts: PartitionFacts, more: int) -> None:
    if facts.end is None:
        return
    before, after = evaluate(facts), evaluate(facts._replace(end=facts.end + more))
    assert before.records is None or (after.records or 0) >= before.records


@given(st.lists(FACTS), st.integers(0, 10**7))
def test_a_sum_says_no_more_than_its_parts(rows: list[PartitionFacts], now: int) -> None:
    parts = [evaluate(facts) for facts in rows]
    found = total(parts)
    assert found.records == sum(part.records or 0 for part in parts)
    assert found.least <= found.records
    assert found.unknown == sum(part.records is None for part in parts)
    assert found.partitions == len(parts)
    if found.unknown:
        assert found.stated.certainty in ("at_least", "unknown")
        assert found.stated.records == found.least
        assert "unknown for" in owed(found)
    stated = found.as_of(now)
    ages = [part.observed_at for part in parts if part.state != "deleted_on_source"]
    if any(at is None or now - at > OLD_AFTER_MS for at in ages):
        assert stated.certainty in ("at_least", "unknown")


@given(st.lists(FACTS), st.lists(FACTS))
def test_known_amounts_add_up(one: list[PartitionFacts], two: list[PartitionFacts]) -> None:
    """Topics add up to flows, and flows to what all of them owe."""
    first, second = [evaluate(row) for row in one], [evaluate(row) for row in two]
    both = total([*first, *second])
    assert both.records == total(first).records + total(second).records
    assert both.unknown == total(first).unknown + total(second).unknown
    assert combine([("a", total(first)), ("b", total(second))]) == both


def test_what_is_not_selected_or_deleted_owes_nothing_however_long_ago_it_was_seen() -> None:
    for code in ("filtered", "deleted_on_source"):
        found = total([evaluate(PartitionFacts("orders", 0, code=code))]).as_of(10**12)
        assert (found.records, found.certainty) == (0, "counted")


def test_a_sum_is_as_old_as_the_oldest_part_of_what_it_states() -> None:
    old = PartitionFacts("orders", 0, position=0, end=33, observed_at=1_000)
    new = PartitionFacts("orders", 1, position=0, end=12, observed_at=39_000)
    never = PartitionFacts("audit", 0)
    found = total(evaluate(row) for row in (new, old, never))
    assert (found.records, found.unknown, found.observed_at) == (45, 1, 1_000)
    assert owed_as_of(found, 41_000) == (
        "an unknown number of records (unknown for 1 partition of audit) (45 by offsets when last "
        "seen, up to 40 s ago)"
    )
    assert combine([("orders", total([evaluate(new)])), ("audit", total([evaluate(never)]))]) == (
        total(evaluate(row) for row in (new, never))
    )
    # A known amount of an unknown age has no age.
    assert total([evaluate(new), evaluate(old._replace(observed_at=None))]).observed_at is None
    assert owed_as_of(total([evaluate(never)]), 41_000).endswith("(never seen)")


def test_words_claim_what_is_known() -> None:
    assert amount(1, "at_least") == "at least 1 record"
    assert amount(0, "counted") == "0 records"
    assert amount(None, "unknown") == "an unknown number of records"
    known = PartitionFacts("orders", 0, position=0, end=2485, observed_at=1, counted=COUNTED)
    silent = [PartitionFacts("payments", number) for number in range(3)]
    found = total(evaluate(row) for row in (known, *silent))
    assert owed(found) == "at least 2,485 records; unknown for 3 partitions of payments"
    # Offsets that may be markers are no lower bound.
    found = total(evaluate(row) for row in (known._replace(counted=None), *silent))
    assert owed(found) == "an unknown number of records (unknown for 3 partitions of payments)"
    assert found.stated.records == 0


def test_an_unknown_age_makes_the_time_lag_a_lower_bound() -> None:
    known = PartitionFacts("orders", 0, position=1, end=5, observed_at=1, time_lag_ms=10_000)
    ageless = known._replace(partition=1, time_lag_ms=None)
    unread = known._replace(partition=2, end=None, time_lag_ms=None)
    in_step = ageless._replace(position=5)

    def lag(*rows: PartitionFacts) -> tuple[int | None, str]:
        found = total(evaluate(row) for row in rows)
        both = combine([("orders", found)])
        assert (both.time_lag_ms, both.time_lag_certainty) == (
            found.time_lag_ms,
            found.time_lag_certainty,
        )
        return found.time_lag_ms, found.time_lag_certainty

    assert lag(known, in_step) == (10_000, "at_most")
    assert lag(known, ageless) == (10_000, "at_least")
    assert lag(known, unread) == (10_000, "at_least")
    assert lag(ageless) == (None, "unknown")

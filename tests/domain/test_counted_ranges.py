"""Laws of the lower bound: headers that were read prove records; unread offsets do not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.account.counted_range import BatchCount, CountedRange, RecordCounter
from mirrors.domain.account.partition import PartitionFacts, evaluate
from mirrors.domain.gaps.lost_ranges import GapFacts


def test_offsets_that_nobody_read_are_no_lower_bound() -> None:
    """92 records were never copied; 96 more offsets are aborted, behind what was read."""
    facts = PartitionFacts(
        "orders", 0, first=0, end=188, observed_at=1, is_stopped=True, code="cannot_be_created"
    )
    found = evaluate(facts._replace(counted=CountedRange(0, 60, 60)))
    assert (found.records, found.certainty, found.least) == (188, "at_most", 60)
    assert evaluate(facts).least == 0


def test_what_left_the_range_that_was_counted_may_have_been_records() -> None:
    counted = CountedRange(100, 200, 70)
    assert counted.least(100, 200) == counted.least(50, 900) == 70
    assert (counted.least(130, 200), counted.least(100, 180), counted.least(190, 195)) == (
        40,
        50,
        0,
    )
    copied = PartitionFacts("orders", 0, position=130, end=300, observed_at=1, counted=counted)
    assert evaluate(copied).least == 40
    # Retention deleted what lies below the log start.
    assert evaluate(copied._replace(first=160)).least == 10
    # Of an end below the position nobody knows what it counts.
    assert evaluate(copied._replace(end=90, end_below_position=True)).least == 0
    gap = GapFacts(kind="remote_missing", position=130, first=100, end=300)
    assert evaluate(copied._replace(gap=gap, first=100)).least == 70


Batches = list[BatchCount]


@st.composite
def logs(draw: st.DrawFn) -> tuple[Batches, frozenset[int]]:
    """A log by its batches, and the offsets of the records that consumers receive."""
    batches: Batches = []
    open_: dict[int, list[int]] = {}
    there: set[int] = set()
    offset = draw(st.integers(0, 50))
    for _ in range(draw(st.integers(0, 12))):
        offset += draw(st.sampled_from([0, 0, 0, 3]))
        kind = draw(st.sampled_from(["plain", "bound", "commit", "abort"]))
        producer = draw(st.integers(0, 2))
        if kind in ("commit", "abort"):
            ended = open_.pop(producer, [])
            there |= set(ended) if kind == "commit" else set()
            batches.append(BatchCount(offset, offset, 1, 0, producer, kind == "commit"))
            offset += 1
            continue
        size = draw(st.integers(1, 10))
        kept = draw(st.sets(st.integers(offset, offset + size - 1)))
        bound = producer if kind == "bound" else None
        batches.append(BatchCount(offset, offset + size - 1, len(kept), 0, bound))
        if bound is None:
            there |= kept
        else:
            open_.setdefault(producer, []).extend(kept)
        offset += size
    return batches, frozenset(there)


@given(logs(), st.data())
def test_a_count_is_never_more_than_there_is(
    log: tuple[Batches, frozenset[int]], data: st.DataObject
) -> None:
    batches, there = log
    end = batches[-1].last + 1 if batches else 0
    counter = RecordCounter(data.draw(st.integers(0, end)))
    at = 0
    for _ in range(data.draw(st.integers(0, 4))):
        # A read begins with the batch that holds the next offset, however far the last one came.
        upto = data.draw(st.integers(at, len(batches)))
        counter.add(batches[max(0, at - 1) : upto])
        at = max(at, upto)
    start, stop = data.draw(st.integers(0, end + 5)), data.draw(st.integers(0, end + 5))
    true = sum(start <= offset < stop for offset in there)
    assert counter.counted.least(start, stop) <= true


@given(logs())
def test_a_log_that_was_read_whole_is_counted_exactly(log: tuple[Batches, frozenset[int]]) -> None:
    batches, there = log
    counter = RecordCounter(0)
    counter.add(batches)
    assert counter.counted.least(0, counter.end) == len(there)

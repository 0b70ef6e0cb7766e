"""Records are counted by reading; what a budget leaves unread stays an upper bound."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.account.totals import Count
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.reading import record_counts
from mirrors.kafka.reading.record_counts import Offsets, read_record_offsets
from spark_runner.kafka_protocol.records import Record
from tests.wire.sides import Side, unique


def test_markers_and_aborted_records_are_not_counted(
    cluster: ClusterSpec, topic: Callable[..., str]
) -> None:
    side, name = Side("primary", cluster.bootstrap_servers), topic(partitions=3)
    writer = side.transaction(unique("counted"))
    for commit in (True, False, True, False):
        side.write(name, 0, [Record(0, 1_000, b"k", b"v")] * 3)
        writer.write(name, 0, [Record(0, 1_000, b"k", b"v")] * 2)
        writer.end(commit=commit)
    time.sleep(0.2)
    end = side.ends(name, committed=True)[0]
    truth = [record.offset for record in side.read(name)]
    windows = {(name, 0): [(0, 7), (5, end)], (name, 1): [(0, 0)], (name, 2): [(0, 9)]}
    found = read_record_offsets(cluster, windows, deadline_s=30)
    assert not found.failed
    assert found.done[name, 0].count(0, end) == Count(len(truth), 0)
    middle = sum(4 <= offset < end - 2 for offset in truth)
    assert found.done[name, 0].count(4, end - 2) == Count(middle, 0)
    even = found.done[name, 0].count(0, end, lambda offset: offset % 2 == 0)
    assert even.records == sum(offset % 2 == 0 for offset in truth)
    # Nothing lies in the others, whatever range was asked for.
    assert [found.done[name, part].count(0, 9).records for part in (1, 2)] == [0, 0]
    side.close()


def test_what_the_budget_leaves_unread_is_an_upper_bound(
    cluster: ClusterSpec, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_counts, "_OFFSETS_AT_ONCE", 100)
    side, name = Side("primary", cluster.bootstrap_servers), topic(partitions=2)
    for _ in range(20):
        side.write(name, 0, [Record(0, 1_000, b"k", b"v" * 1_000)] * 50)
    side.write(name, 1, [Record(0, 1_000, b"k", b"v")] * 5)
    windows = {(name, 0): [(0, 1_000)], (name, 1): [(0, 5)]}
    found = read_record_offsets(cluster, windows, deadline_s=30, max_bytes=100_000)
    big, small = (found.done[name, part].count(0, 1_000 if part == 0 else 5) for part in (0, 1))
    assert (small.certainty, small.most) == ("counted", 5)
    assert big.certainty == "at_most"
    assert (big.most, 0 < big.records < 1_000) == (1_000, True)
    gone = read_record_offsets(cluster, {("no-such-topic", 0): [(0, 5)]}, deadline_s=5)
    assert ("no-such-topic", 0) not in gone.done or gone.done["no-such-topic", 0].count(0, 5).unread
    side.close()


windows = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4)


@given(st.sets(st.integers(0, 40)), windows, st.integers(0, 40), st.integers(0, 40))
def test_a_count_never_leaves_out_a_record(
    records: set[int], covered: list[tuple[int, int]], start: int, end: int
) -> None:
    found, reached = Offsets(), 0
    for first, last in sorted(covered):
        first = max(first, reached)
        for offset in range(first, last):
            if offset in records:
                found.add(offset)
        found.cover(first, last)
        reached = max(reached, last)
    count = found.count(start, end)
    truth = sum(start <= offset < end for offset in records)
    assert count.records <= truth <= count.most
    if count.certainty == "counted":
        assert count.records == truth

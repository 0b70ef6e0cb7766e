"""Properties of offset runs: packed runs are read back unchanged, in small blocks."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.offsets.generation import generation
from mirrors.domain.offsets.run_blocks import Block, first_run, read_block
from mirrors.domain.offsets.runs import BLOCK_RUNS, BlockKey, OpenBlock, Run, pack, runs_topic

gaps = st.integers(0, 2**40)
lengths = st.integers(1, 2**33)


@st.composite
def run_lists(draw: st.DrawFn, most: int = 300) -> list[Run]:
    """Runs of a partition as they come: forward on both sides, with or without gaps."""
    upstream, downstream = draw(gaps), draw(gaps)
    found = []
    for ahead, below, length in draw(st.lists(st.tuples(gaps, gaps, lengths), max_size=most)):
        upstream, downstream = upstream + ahead, downstream + below
        found.append(Run(upstream, downstream, length))
        upstream, downstream = upstream + length, downstream + length
    return found


def merged(runs: list[Run]) -> list[Run]:
    """The same runs, with those that touch on both sides made one."""
    out: list[Run] = []
    for run in runs:
        if out and (run.upstream, run.downstream) == (
            out[-1].upstream + out[-1].length,
            out[-1].downstream + out[-1].length,
        ):
            out[-1] = out[-1]._replace(length=out[-1].length + run.length)
        else:
            out.append(run)
    return out


def stored(transactions: list[list[Run]]) -> list[Run]:
    """What a reader of the compacted topic finds after these transactions."""
    topic: dict[bytes, bytes] = {}
    block: OpenBlock | None = None
    for runs in transactions:
        packed = pack(block, runs)
        block = packed.open
        for row in packed.blocks:
            topic[BlockKey("t", 0, "g", row.first.upstream).to_bytes()] = row.to_bytes()
    found = [run for value in topic.values() for run in read_block(value)]
    return sorted(found)


@given(run_lists(), st.integers(1, 20))
def test_what_was_packed_over_many_transactions_is_read_back(runs: list[Run], size: int) -> None:
    transactions = [runs[at : at + size] for at in range(0, len(runs), size)]
    found = stored(transactions)
    # A full block ends a run; apart from that touching runs are one.
    assert merged(found) == merged(runs)
    assert sum(run.length for run in found) == sum(run.length for run in runs)


@given(run_lists(most=20), run_lists(most=20))
def test_an_aborted_transaction_leaves_no_trace(kept: list[Run], aborted: list[Run]) -> None:
    before = pack(None, kept).open
    pack(before, aborted)
    assert pack(None, kept).open == before


@given(run_lists(most=600))
def test_no_block_holds_more_runs_than_it_should(runs: list[Run]) -> None:
    for block in pack(None, runs).blocks:
        assert len(list(read_block(block.to_bytes()))) <= BLOCK_RUNS


@given(run_lists(most=BLOCK_RUNS), st.data())
def test_the_runs_around_an_offset_are_those_that_a_scan_finds(
    runs: list[Run], data: st.DataObject
) -> None:
    for packed in pack(None, runs).blocks:
        block, held = Block(packed.to_bytes()), list(read_block(packed.to_bytes()))
        edges = [run.upstream + step for run in held for step in (-1, 0, 1)]
        offset = data.draw(st.sampled_from(edges) | gaps)
        below = [run for run in held if run.upstream <= offset][-1:]
        above = [run for run in held if run.upstream > offset][:1]
        assert block.around(offset) == (*(below or [None]), *(above or [None]))


@given(run_lists(most=BLOCK_RUNS), st.data())
def test_the_first_run_alone_is_read_and_refused_as_by_taking_all_apart(
    runs: list[Run], data: st.DataObject
) -> None:
    def read_alone(block: bytes) -> Run | None:
        with contextlib.suppress(MalformedRecord):
            return first_run(block)
        return None

    def read_all(block: bytes) -> Run | None:
        with contextlib.suppress(MalformedRecord):
            return next(read_block(block), None)
        return None

    for packed in pack(None, runs).blocks:
        whole = packed.to_bytes()
        assert first_run(whole) == packed.first
        cut = whole[: data.draw(st.integers(0, len(whole)))]
        at, other = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 255))
        changed = whole[:at] + bytes([other]) + whole[at + 1 :]
        for damaged in (cut, changed):
            assert read_alone(damaged) == read_all(damaged)


def test_a_run_that_goes_back_begins_another_block() -> None:
    packed = pack(None, [Run(10, 10, 5), Run(12, 15, 5)])
    assert [block.first for block in packed.blocks] == [Run(10, 10, 5), Run(12, 15, 5)]


@given(st.integers(100, 50_000), st.text(min_size=1, max_size=40))
def test_at_rest_a_run_takes_no_more_than_six_bytes(records: int, topic: str) -> None:
    """One run a transaction, a marker between them: a partition in exactly-once mode."""
    kept: dict[bytes, bytes] = {}
    block, upstream, downstream, count = None, 0, 0, 1000
    for number in range(count):
        length = 1 + records * (number % 7) // 3
        packed = pack(block, [Run(upstream, downstream, length)])
        block, upstream, downstream = packed.open, upstream + length, downstream + length + 1
        for row in packed.blocks:
            key = BlockKey(topic, 11, "0123456789abcdef", row.first.upstream).to_bytes()
            kept[key] = row.to_bytes()
    overhead = 16  # of a record in a batch
    size = sum(len(key) + len(value) + overhead for key, value in kept.items())
    assert size / count <= 6 + len(topic.encode()) * len(kept) / count


@given(st.text(), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_keys_are_read_back(topic: str, partition: int, first: int) -> None:
    key = BlockKey(topic, partition, generation("a", "b", "c", "d"), first)
    assert BlockKey.from_bytes(key.to_bytes()) == key


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x02\x00", b"\x01\x02\x00\x00\x00\x00\x00"])
def test_a_damaged_block_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedRecord):
        list(read_block(data))
    with pytest.raises(MalformedRecord):
        first_run(data)


def test_generations_differ_when_any_id_differs() -> None:
    ids = ("s", "x", "t", "y")
    changed = [[*ids[:at], "other", *ids[at + 1 :]] for at in range(4)]
    assert len({generation(*row) for row in (ids, *changed)}) == 5


def test_mm2_counts_the_topic_of_runs_internal() -> None:
    assert runs_topic("us.west") == "mm2-runs.us.west.internal"

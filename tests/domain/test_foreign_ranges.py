"""Ranges that other flows wrote, looked up by offset: equal to a brute-force set, in any order."""

from __future__ import annotations

import random

import pytest

from mirrors.domain.offsets.replicated_ranges import ReplicatedRanges
from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import (
    BlockKey,
    Run,
    is_skipped_generation,
    pack,
    skipped_generation,
)
from mirrors.domain.offsets.truncation_marks import MARK_BODY, is_truncation, truncation_key


def test_every_batch_is_found_as_a_set_of_offsets_has_it() -> None:
    chance = random.Random(1)
    ranges, copied, at = ReplicatedRanges(), set(), 0
    block, position = None, 0
    for _ in range(3000):
        length, gap = chance.randrange(1, 9), chance.choice([0, 0, 1, 5])
        packed = pack(block, [Run(position, at, length)])
        for row in packed.blocks:
            key = BlockKey("t", 0, "g", row.first.upstream, "id")
            ranges.put(("mm2-runs.a.internal", key), row.to_bytes())
        block, position = packed.open, position + length
        copied |= set(range(at, at + length))
        at += length + gap
        if chance.random() < 0.3:
            first = max(0, at - chance.randrange(1, 60))
            last = first + chance.randrange(0, 12)
            found = {
                run.downstream + number
                for run in ranges.inside(first, last)
                for number in range(run.length)
            }
            assert found == {offset for offset in copied if first <= offset <= last}
        if chance.random() < 0.1:
            ranges.forget_before(at - 100)


def test_blocks_are_looked_through_when_the_next_one_is_reached_and_not_for_every_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With ten thousand of them a batch took two milliseconds."""
    unpack, times = ReplicatedRanges._unpack, 0

    def counted(self: ReplicatedRanges, last: int) -> None:
        nonlocal times
        times += 1
        unpack(self, last)

    monkeypatch.setattr(ReplicatedRanges, "_unpack", counted)
    ranges = ReplicatedRanges()
    for number in range(20):
        runs = [Run(at, at, 10) for at in range(number * 550, number * 550 + 550, 11)]
        [block] = pack(None, runs).blocks
        ranges.put(("topic", BlockKey("t", 0, "g", runs[0].upstream)), block.to_bytes())
    for at in range(0, 20 * 550, 11):
        assert ranges.inside(at, at + 9) == [Run(at, at, 10)]
        ranges.forget_before(at)
    assert times == 20


def test_a_run_says_where_the_other_flow_read_it() -> None:
    ranges = ReplicatedRanges()
    block = pack(None, [Run(50, 100, 10), Run(70, 110, 5)]).blocks[0]
    ranges.put(("topic", BlockKey("t", 0, "g", 50)), block.to_bytes())
    assert ranges.inside(105, 112) == [Run(55, 105, 5), Run(70, 110, 3)]
    assert ranges.inside(90, 99) == []


def test_a_block_that_is_taken_away_counts_no_more() -> None:
    ranges, key = ReplicatedRanges(), ("topic", BlockKey("t", 0, "g", 0))
    ranges.put(key, pack(None, [Run(0, 0, 10)]).blocks[0].to_bytes())
    assert ranges.inside(0, 3)
    ranges.put(key, None)
    assert ranges.inside(0, 3) == []


@pytest.mark.parametrize("born", ["0123456789abcdef", ""])
def test_what_was_left_out_is_kept_apart_from_the_map(born: str) -> None:
    assert is_skipped_generation(skipped_generation(born))
    assert not is_skipped_generation(born)


def test_behind_a_cut_only_what_was_said_since_counts_and_of_that_flow_alone() -> None:
    chance = random.Random(2)
    for _ in range(40):
        ranges, copied, at = ReplicatedRanges(), {"a": set[int](), "b": set[int]()}, 0
        for turn, topic in enumerate(chance.choices("ab", k=chance.randrange(1, 9))):
            at, length = at + chance.randrange(0, 4), chance.randrange(1, 20)
            block = pack(None, [Run(turn * 100, at, length)]).blocks[0].to_bytes()
            ranges.put((topic, BlockKey("t", 0, "g", turn * 100, "id")), block)
            copied[topic] |= set(range(at, at + length))
            at += length
            if chance.random() < 0.3:
                ranges.inside(0, chance.randrange(0, at))
        end = chance.randrange(0, at + 2)
        ranges.cut("a", end)
        assert copied_by(ranges) == {one for one in copied["a"] if one < end} | copied["b"]
        later = pack(None, [Run(900, at + 2, 3)]).blocks[0].to_bytes()
        ranges.put(("a", BlockKey("t", 0, "h", 900, "id")), later)
        assert {at + 2, at + 3, at + 4} == {one for one in copied_by(ranges) if one >= at}


def copied_by(ranges: ReplicatedRanges) -> set[int]:
    return {at for at in range(200) if ranges.inside(at, at)}


def test_a_cut_is_no_part_of_the_map_and_no_note_of_what_was_left_out() -> None:
    key = truncation_key("t", 0, "0123456789abcdef", "id", 40)
    assert is_skipped_generation(key.generation)
    assert is_truncation(BlockKey.from_bytes(key.to_bytes()))
    assert key.first == 40
    assert not is_truncation(BlockKey("t", 0, skipped_generation("0123456789abcdef"), 40, "id"))
    assert list(read_block(MARK_BODY))

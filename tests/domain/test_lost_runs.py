"""A runs topic that lost its newest blocks: no answer is wrong; unknown offsets are reported."""

from __future__ import annotations

import bisect
import dataclasses
from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st

from mirrors.domain.failback.reverse_translation import downstream_between, upstream_between
from mirrors.domain.offsets import runs
from mirrors.domain.offsets.run_blocks import Block, first_run, follows, read_block
from mirrors.domain.offsets.runs import OpenBlock, Run, pack
from mirrors.domain.offsets.translation import Translation, nearest, translate_between
from mirrors.domain.offsets.truncation_marks import truncate_downstream, truncate_upstream
from tests.domain.cases import laws

# Upstream gap, length; each transaction ends in a marker downstream.
steps = st.tuples(st.integers(0, 2), st.integers(1, 3))


@dataclasses.dataclass(frozen=True)
class World:
    """Transactions of one map, before some of which the writer was another one; what the
    transactions in `lost` wrote into the topic is gone, and their records are not."""

    transactions: list[list[Run]]
    restarts: set[int]
    lost: range

    @property
    def position(self) -> int:
        return self.transactions[-1][-1].upstream + self.transactions[-1][-1].length

    @property
    def end(self) -> int:
        return self.transactions[-1][-1].downstream + self.transactions[-1][-1].length

    def topic(self, lost: range) -> list[tuple[int, bytes]]:
        """The blocks stopped, by where they begin."""
        block: OpenBlock | None = None
        kept: dict[int, bytes] = {}
        end = None
        for number, found in enumerate(self.transactions):
            packed = pack(None if number in self.restarts else block, found, end)
            block, end = packed.open, found[-1].downstream + found[-1].length
            if number not in lost:
                kept |= {one.first.upstream: one.to_bytes() for one in packed.blocks}
        return sorted(kept.items())


@st.composite
def worlds(draw: st.DrawFn) -> World:
    found, upstream, downstream = [], draw(st.integers(0, 3)), 0
    for transaction in draw(st.lists(st.lists(steps, min_size=1, max_size=4), min_size=1)):
        here = []
        for gap, length in transaction:
            upstream += gap
            here.append(Run(upstream, downstream, length))
            upstream, downstream = upstream + length, downstream + length
        found.append(here)
        downstream += 1
    numbers = st.integers(0, len(found))
    first, last = sorted((draw(numbers), draw(numbers)))
    return World(found, draw(st.sets(numbers)), range(first, last))


class Reader:
    def __init__(self, blocks: list[tuple[int, bytes]], position: int, end: int | None) -> None:
        self._blocks, self._position, self._end = blocks, position, end

    def translate(self, upstream: int) -> Translation:
        wanted = nearest(upstream, position=self._position)
        at = bisect.bisect_right(self._blocks, wanted, key=lambda block: block[0])
        below = above = before = None
        if at:
            below, above = Block(self._blocks[at - 1][1]).around(wanted)
        if above is None and at < len(self._blocks):
            above, before = first_run(self._blocks[at][1]), follows(self._blocks[at][1])
        return translate_between(
            upstream,
            position=self._position,
            below=below,
            above=above,
            follows=before,
            map_end=self._end,
        )


def three_runs_a_block() -> mock._patch[int]:
    return mock.patch.object(runs, "BLOCK_RUNS", 3)


@laws
@given(worlds())
@example(World([[Run(0, 0, 3)], [Run(3, 4, 3)], [Run(6, 8, 3)]], {1, 2}, range(1, 2)))
def test_no_answer_is_wrong_and_only_what_was_lost_is_unknown(world: World) -> None:
    with three_runs_a_block():
        whole = Reader(world.topic(range(0)), world.position, world.end)
        rest = world.topic(world.lost)
        reader = Reader(rest, world.position, world.end)
        kept = {at for _, body in rest for run in read_block(body) for at in _span(run)}
    lost = {
        at for found in world.transactions for run in found for at in _span(run) if at not in kept
    }
    for upstream in range(world.position + 2):
        wanted, answer = whole.translate(upstream), reader.translate(upstream)
        assert wanted.outcome != "unknown"
        following = min((at for at in kept if at >= upstream), default=world.position)
        if lost & set(range(upstream, following)):
            assert (answer.outcome, answer.downstream) == ("unknown", None)
            assert "no offset runs cover" in answer.reason
        elif answer.outcome == "unknown":
            # In a hole of the source beside what was lost: nobody can tell on which side.
            before = max((at for at in kept if at < upstream), default=-1)
            assert lost & set(range(before, following))
            assert not {upstream} & (kept | lost)
        else:
            assert answer == wanted


@laws
@given(worlds())
def test_on_the_way_back_nothing_is_passed_that_lost_runs_told(world: World) -> None:
    with three_runs_a_block():
        rest = [run for _, body in world.topic(world.lost) for run in read_block(body)]
        firsts = {first_run(body): follows(body) for _, body in world.topic(world.lost)}
    records = {
        run.downstream + at: run.upstream + at
        for found in world.transactions
        for run in found
        for at in range(run.length)
    }
    for downstream in range(world.end + 1):
        below = max((run for run in rest if run.downstream <= downstream), default=None)
        above = min((run for run in rest if run.downstream > downstream), default=None)
        before = world.end if above is None else firsts.get(above)
        found = upstream_between(downstream, below=below, above=above, follows=before)
        unread = [up for down, up in records.items() if down >= downstream]
        assert (found is None) <= (not unread)
        assert found is None or not unread or found <= min(unread)
        if not world.lost:
            assert found == min(unread, default=None)
    for upstream in range(world.position + 1):
        below = max((run for run in rest if run.upstream <= upstream), default=None)
        above = min((run for run in rest if run.upstream > upstream), default=None)
        before = world.end if above is None else firsts.get(above)
        found = downstream_between(upstream, below=below, above=above, follows=before)
        unread = [down for down, up in records.items() if up >= upstream]
        assert (found is None) <= (not unread)
        assert found is None or not unread or found <= min(unread)
        if not world.lost:
            assert found == min(unread, default=None)


def _span(run: Run) -> range:
    return range(run.upstream, run.upstream + run.length)


def test_who_reads_without_asking_finds_the_same_runs() -> None:
    """What a block follows stands behind its runs: a reader of before does not see it."""
    found = [Run(10, 20, 5), Run(17, 26, 1)]
    (plain,), (told,) = pack(None, found).blocks, pack(None, found, 12).blocks
    assert told.to_bytes().startswith(plain.to_bytes())
    assert list(read_block(told.to_bytes())) == found
    assert (follows(plain.to_bytes()), follows(told.to_bytes())) == (None, 12)


def test_what_a_block_follows_stays_when_its_end_is_cut_off() -> None:
    (block,) = pack(None, [Run(10, 20, 5), Run(17, 26, 1)], 12).blocks
    for cut in (truncate_downstream(block.to_bytes(), 22), truncate_upstream(block.to_bytes(), 12)):
        assert cut is not None
        assert (list(read_block(cut)), follows(cut)) == ([Run(10, 20, 2)], 12)


def test_a_run_that_goes_back_says_nothing_of_the_one_before() -> None:
    blocks = pack(None, [Run(10, 10, 5), Run(12, 15, 5)], 3).blocks
    assert [follows(block.to_bytes()) for block in blocks] == [3, None]

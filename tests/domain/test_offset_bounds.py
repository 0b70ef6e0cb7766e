"""Lower bounds from offset syncs: no record is skipped, and the nearest verified pair decides."""

from __future__ import annotations

import itertools

from hypothesis import assume, given
from hypothesis import strategies as st

from mirrors.domain.groups.checkpoints import plan_checkpoint, plan_offset_update
from mirrors.domain.groups.resume import GroupPartition, resume_offset_of
from mirrors.domain.internal_topics.records import Checkpoint
from mirrors.domain.offsets.mm2_bounds import Neighbors, Pair, bound_of, candidates, sentence
from mirrors.domain.offsets.translation import Translation

NOWHERE = Neighbors()


def test_the_nearest_proven_pair_bounds_and_one_at_the_offset_is_the_place() -> None:
    pairs = [Pair(100, 200), Pair(150, 251)]
    bound = bound_of(120, proven=pairs, pairs=pairs, around=Neighbors(end=400))
    assert bound is not None
    assert (bound.downstream, bound.re_reads, bound.pair) == (201, 50, Pair(100, 200))
    exact = bound_of(150, proven=pairs, pairs=pairs, around=NOWHERE)
    assert exact is not None
    assert (exact.downstream, exact.re_reads) == (251, 0)
    beyond = bound_of(300, proven=pairs, pairs=pairs, around=Neighbors(end=260))
    assert beyond is not None
    assert (beyond.downstream, beyond.re_reads) == (252, 8)
    assert bound_of(99, proven=pairs, pairs=pairs, around=NOWHERE) is None
    assert candidates(pairs, 149) == [Pair(100, 200)]


def test_what_is_not_proven_only_lowers_a_bound() -> None:
    pairs = [Pair(100, 200), Pair(110, 150)]
    bound = bound_of(105, proven=[Pair(100, 200)], pairs=pairs, around=NOWHERE)
    assert bound is not None
    assert (bound.downstream, bound.re_reads) == (150, None)
    assert bound_of(105, proven=[], pairs=pairs, around=NOWHERE) is None


def test_this_flows_own_runs_bound_too() -> None:
    around = Neighbors(below=40, above=60)
    bound = bound_of(7, proven=[], pairs=[], around=around)
    assert bound is not None
    assert (bound.downstream, bound.re_reads, bound.pair) == (40, 20, None)
    assert "the end of this flow's last copy before it" in sentence(7, bound)
    # A stale pair leads neither below the one run nor beyond the other.
    stale = [Pair(5, 1000), Pair(9, 2)]
    bound = bound_of(7, proven=[Pair(5, 1000)], pairs=stale, around=around)
    assert bound is not None
    assert bound.downstream == 60


@st.composite
def copied(draw: st.DrawFn) -> tuple[list[int | None], list[Pair], int]:
    """A remote partition as MM2 leaves it, and some of its syncs: upstream offsets or foreign; and
    the position from which on this flow copies behind it.

    What the source holds is the same each time that MM2 copies it: a record that was compacted away
    between two copies is one that no reader of the source gets either.
    """
    there: list[int | None] = []
    syncs: list[Pair] = []
    steps = draw(st.lists(st.integers(1, 3), min_size=48, max_size=48))
    source = list(itertools.accumulate(steps, initial=draw(st.integers(0, 3))))
    at = 0
    for _ in range(draw(st.integers(1, 6))):
        # Killed, MM2 begins again at what it had noted, at or below the last one that it sent.
        at = max(0, at - draw(st.integers(0, 5)))
        for _ in range(draw(st.integers(1, 8))):
            there += [None] * draw(st.integers(0, 2))
            if draw(st.booleans()):
                syncs.append(Pair(source[at], len(there)))
            there.append(source[at])
            at += 1
    return there, syncs, source[at]


@given(copied(), st.integers(0, 60), st.randoms(use_true_random=False))
def test_no_bound_skips_a_record_and_none_costs_more_than_it_says(
    world: tuple[list[int | None], list[Pair], int], upstream: int, chance: object
) -> None:
    there, syncs, position = world
    # Beyond it this flow's own runs answer.
    assume(upstream < position)
    proven = [pair for pair in syncs if chance.random() < 0.7]  # type: ignore[attr-defined]
    bound = bound_of(upstream, proven=proven, pairs=syncs, around=Neighbors(end=len(there)))
    # Records from the position on come once more, behind all of these.
    unread = {at for at in there if at is not None and upstream <= at < position}
    if bound is None:
        assert not any(pair.upstream <= upstream for pair in proven)
        return
    seen = [at for at in there[bound.downstream :] if at is not None]
    assert unread <= set(seen)
    assert bound.re_reads is not None
    # Re-reads at most: what lies before the first unread record, foreign ones left out.
    first = next((number for number, at in enumerate(seen) if at >= upstream), len(seen))
    assert first <= bound.re_reads


def make_group_partition(**facts: object) -> GroupPartition:
    found = Translation(
        upstream=120, downstream=201, outcome="lower_bound", reason="a bound", re_reads=50
    )
    plain = {"remote_topic": "a.t", "source_offset": 120, "target_start": 0, "target_end": 900}
    return GroupPartition(
        group="g", topic="t", partition=0, **{"translation": found, **plain, **facts}
    )  # type: ignore[arg-type]


def test_a_group_resumes_at_the_bound_but_nobody_goes_back_to_it() -> None:
    resume = resume_offset_of(make_group_partition())
    assert (resume.downstream, resume.outcome, resume.re_reads) == (201, "lower_bound", 50)
    move = plan_offset_update(make_group_partition(), enabled=True, state="Empty", wrote=None)
    assert (move.state, move.to) == ("moved", 201)
    further = plan_offset_update(
        make_group_partition(target_offset=230), enabled=True, state="Empty", wrote=None
    )
    assert (further.state, further.to) == ("kept", None)
    mine = Checkpoint("g", "a.t", 0, 120, 230, "")
    assert plan_checkpoint(make_group_partition(), mine).checkpoint is None
    earlier = Checkpoint("g", "a.t", 0, 120, 150, "")
    emitted = plan_checkpoint(make_group_partition(), earlier).checkpoint
    assert emitted is not None
    assert emitted.downstream == 201


def test_a_bound_below_the_targets_log_start_costs_an_unknown_number() -> None:
    resume = resume_offset_of(make_group_partition(target_start=300))
    assert (resume.downstream, resume.outcome) == (300, "expired")
    assert (resume.re_reads, resume.skipped) == (None, 99)
    assert "at offset 201 or later of a.t-0" in resume.reason

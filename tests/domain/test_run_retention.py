"""Offset runs of earlier generations: those that can still be asked for are kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.offsets.retention import (
    LogStarts,
    OldRuns,
    RemoteLog,
    RetentionBoundary,
    notes_due,
    retention_boundary,
    retirement,
)
from mirrors.domain.offsets.runs import Run
from tests.domain.cases import laws

_runs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), max_size=8)


def _laid_out(shapes: list[tuple[int, int, int]]) -> list[Run]:
    runs, upstream, downstream = [], 0, 0
    for above, below, length in shapes:
        run = Run(upstream + above, downstream + below, length)
        runs.append(run)
        upstream, downstream = run.upstream + length, run.downstream + length
    return runs


@laws
@given(
    shapes=_runs,
    superseded=st.booleans(),
    gone=st.booleans(),
    start=st.none() | st.integers(0, 40),
)
def test_a_run_whose_target_record_can_still_be_read_never_goes(
    shapes: list[tuple[int, int, int]], superseded: bool, gone: bool, start: int | None
) -> None:
    runs = _laid_out(shapes)
    ends = runs[-1].downstream + runs[-1].length if runs else None
    old = OldRuns(superseded=superseded, ends=ends)
    verdict = retirement(old, RemoteLog(gone=gone, start=start))
    readable = [
        at for run in runs for at in range(run.downstream, run.downstream + run.length)
        if not gone and (start is None or at >= start)
    ]  # fmt: skip
    assert not (verdict.is_due and readable)
    assert verdict.reason
    # And nothing stays for ever: superseded, and with no record left, it goes.
    if superseded and not readable and (start is not None or not runs):
        assert verdict.is_due


def test_each_answer_says_why() -> None:
    def why(old: OldRuns, log: RemoteLog) -> tuple[bool, str]:
        found = retirement(old, log)
        return found.is_due, found.reason

    old, held = OldRuns(superseded=True, ends=50), RemoteLog(gone=False, start=20)
    assert why(old, held) == (
        False,
        "the remote topic holds records from 20 on, and the runs end at 50",
    )
    assert why(old, RemoteLog(gone=False, start=50)) == (
        True,
        "the remote topic no longer holds any of their records",
    )
    assert why(old, RemoteLog(gone=True))[1] == (
        "the remote topic that they map to was deleted or recreated"
    )
    waiting = OldRuns(superseded=False, ends=50)
    assert why(waiting, RemoteLog(gone=False, start=99))[0] is False
    assert why(waiting, RemoteLog(gone=True))[0] is True
    assert why(old, RemoteLog(gone=False))[0] is False


_offset = st.none() | st.integers(0, 30)
_starts = st.builds(LogStarts, _offset, _offset)


@laws
@given(before=_starts, now=_starts, groups=_starts, position=st.integers(0, 30))
def test_the_border_lies_at_or_below_all_that_is_known_to_matter(
    before: LogStarts, now: LogStarts, groups: LogStarts, position: int
) -> None:
    found = retention_boundary(before=before, now=now, groups=groups, position=position)
    if None in (*before, *now):
        assert found is None, "what a cluster does not say is not guessed"
        return
    upstream = [before.source, now.source, position, groups.source]
    downstream = [before.target, now.target, groups.target]
    lowest = RetentionBoundary(
        *(min(at for at in side if at is not None) for side in (upstream, downstream))
    )
    assert found == (lowest if lowest.upstream and lowest.downstream else None)


def test_a_note_goes_once_no_record_that_it_explains_is_left_in_the_source() -> None:
    ends = {0: 10, 10: 25, 25: 40, 40: 41}
    cases = {None: [], 0: [], 9: [], 10: [0], 25: [0, 10], 39: [0, 10], 99: [0, 10, 25]}
    for start, wanted in cases.items():
        assert list(notes_due(ends, is_current=True, start=start)) == wanted
    assert list(notes_due(ends, is_current=False, start=None)) == [0, 10, 25, 40]
    assert list(notes_due({}, is_current=True, start=5)) == []

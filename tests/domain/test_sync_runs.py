"""Offset syncs that are derived from runs are those that MM2 sends record by record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.offsets.mm2_syncs import MOST_AT_ONCE, Sync, SyncedUpTo, syncs_of
from mirrors.domain.offsets.runs import Run
from tests.domain.cases import laws
from tests.domain.mm2_syncs import SyncIndex, SyncWriter
from tests.domain.run_map import RunMap

pieces = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 12)), min_size=1, max_size=8
)


def runs_of(pieces: list[tuple[int, int, int]]) -> list[Run]:
    runs, upstream, downstream = [], 0, 0
    for above, below, length in pieces:
        upstream, downstream = upstream + above, downstream + below
        runs.append(Run(upstream, downstream, length))
        upstream, downstream = upstream + length, downstream + length
    return runs


def by_record(runs: list[Run], lag: int, commits: list[int]) -> list[Sync]:
    """What MM2's writer sends, each sync arriving at once, with commits behind these runs."""
    writer, tp = SyncWriter(lag), ("t", 0)
    sent: list[Sync] = []
    for number, run in enumerate(runs):
        for at in range(run.length):
            sync = Sync(run.upstream + at, run.downstream + at)
            sent += writer.acknowledged(tp, sync).values()
            writer.arrived(writer._in_flight)
        if number in commits:
            sent += writer.committed().values()
            writer.arrived(writer._in_flight)
    return sent


@laws
@given(pieces=pieces, lag=st.integers(0, 9), cut=st.integers(0, 8))
def test_the_syncs_are_mm2s_however_the_runs_are_cut_into_turns(
    pieces: list[tuple[int, int, int]], lag: int, cut: int
) -> None:
    runs = runs_of(pieces)
    cut = min(cut, len(runs))
    last, found = SyncedUpTo(), []
    for part in (runs[:cut], runs[cut:]):
        if part:
            position = part[-1].upstream + part[-1].length
            # The runs before are read again with each turn, as a block holds them.
            syncs, last = syncs_of(
                last, runs[: runs.index(part[-1]) + 1], offset_lag_max=lag, position=position
            )
            found += syncs
    assert found == by_record(runs, lag, [cut - 1, len(runs) - 1])


@laws
@given(pieces=pieces, lag=st.integers(0, 9))
def test_a_reader_of_the_syncs_is_never_led_ahead_of_the_exact_map(
    pieces: list[tuple[int, int, int]], lag: int
) -> None:
    runs = runs_of(pieces)
    position = runs[-1].upstream + runs[-1].length
    syncs, _ = syncs_of(SyncedUpTo(), runs, offset_lag_max=lag, position=position)
    index = SyncIndex()
    for sync in syncs:
        index.add(sync)
    for upstream in range(runs[0].upstream, position + 1):
        guess = index.translate(upstream)
        exact = RunMap(runs).translate(upstream, position=position).downstream
        assert guess is not None
        assert exact is not None
        assert guess <= exact


def test_nothing_new_is_nothing_to_write() -> None:
    runs = [Run(5, 0, 10)]
    syncs, last = syncs_of(SyncedUpTo(), runs, offset_lag_max=100, position=15)
    assert syncs == [Sync(5, 0), Sync(14, 9)]
    assert syncs_of(last, runs, offset_lag_max=100, position=15)[0] == []


def test_what_lies_behind_the_position_waits_for_its_turn() -> None:
    runs = [Run(0, 0, 10)]
    syncs, last = syncs_of(SyncedUpTo(), runs, offset_lag_max=100, position=4)
    assert syncs == [Sync(0, 0), Sync(3, 3)]
    assert syncs_of(last, runs, offset_lag_max=100, position=10)[0] == [Sync(9, 9)]


def test_what_was_copied_a_second_time_is_no_news() -> None:
    _, last = syncs_of(SyncedUpTo(), [Run(0, 0, 10)], offset_lag_max=3, position=10)
    syncs, _ = syncs_of(last, [Run(0, 0, 5), Run(5, 10, 10)], offset_lag_max=3, position=15)
    assert syncs == [Sync(10, 15), Sync(14, 19)]


def test_a_long_run_gives_no_more_syncs_than_a_reader_can_use() -> None:
    syncs, last = syncs_of(
        SyncedUpTo(), [Run(0, 0, 50_000_000)], offset_lag_max=0, position=50_000_000
    )
    assert len(syncs) <= MOST_AT_ONCE
    assert syncs[-1] == Sync(49_999_999, 49_999_999)
    assert last == SyncedUpTo(49_999_999, 49_999_999, 49_999_999)
    assert syncs == sorted(syncs)

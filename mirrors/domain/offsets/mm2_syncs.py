"""MM2's offset syncs from exact runs: those that MM2's source task would have sent.

A run of a million records is not iterated: within it a sync is due every `offset.lag.max` + 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mirrors.domain.offsets.runs import Run

# More at once are useless to MM2's readers: they keep 64, dense near the newest.
MOST_AT_ONCE = 256


class Sync(NamedTuple):
    """A pair of offsets of one partition."""

    upstream: int
    downstream: int


class SyncedUpTo(NamedTuple):
    """The last record that was processed, and the downstream offset of the last due sync."""

    upstream: int = -1
    downstream: int = -1
    synced: int = -1


def syncs_of(
    last: SyncedUpTo, runs: Iterable[Run], *, offset_lag_max: int, position: int
) -> tuple[list[Sync], SyncedUpTo]:
    """Return the syncs after `last` and before `position`, including the newest record's.

    MM2 sends that one with its next commit; callers are at a commit. Records that were copied again
    after a restart get no sync: a sync that goes back would make readers drop all others.
    """
    found: list[Sync] = []
    before = last
    for run in runs:
        skip = max(0, last.upstream + 1 - run.upstream)
        length = min(run.length, position - run.upstream) - skip
        if length <= 0:
            continue
        rest = Run(run.upstream + skip, run.downstream + skip, length)
        due, last = _of_run(last, rest, offset_lag_max)
        found += due
    newest = Sync(last.upstream, last.downstream)
    if last != before and found[-1:] != [newest]:
        found.append(newest)
    return _thinned(found), last


def _of_run(last: SyncedUpTo, run: Run, most: int) -> tuple[list[Sync], SyncedUpTo]:
    synced, found = last.synced, []
    first_is_due = (
        synced == -1
        or run.downstream - (synced + 1) >= most
        or run.upstream - last.upstream != 1
        or run.downstream < last.downstream
    )
    if first_is_due:
        found.append(Sync(run.upstream, run.downstream))
        synced = run.downstream
    step = most + 1
    end = run.downstream + run.length
    due = range(max(synced + step, run.downstream + 1), end, step)
    if due:
        synced = due[-1]
        found += [
            Sync(run.upstream + at - run.downstream, at)
            for at in due[:: max(1, len(due) // MOST_AT_ONCE)]
        ]
    return found, SyncedUpTo(run.upstream + run.length - 1, end - 1, synced)


def _thinned(syncs: list[Sync]) -> list[Sync]:
    """Return at most as many as are useful, the newest among them."""
    step = -(-len(syncs) // MOST_AT_ONCE) or 1
    return syncs[::-step][::-1]

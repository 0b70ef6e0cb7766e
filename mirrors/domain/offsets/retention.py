"""When offset runs may go: once nobody can ask for their records.

A generation of a partition ends when its source topic or its remote topic is made anew, or when an
operator lets the partition begin again. Its runs still name records of the remote topic: whoever
skips by them what was copied needs them as long as one of those records can be read.

Of the current generation goes what lies before the start of both logs, but for the oldest block.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple


@dataclasses.dataclass(frozen=True, kw_only=True)
class OldRuns:
    """A partition's runs in a generation in which it has no position.

    `ends`: the downstream offset behind their last record, None where there is no run.
    `superseded`: a later generation of the same partition has written runs since.
    """

    superseded: bool
    ends: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RemoteLog:
    """The remote partition that they lead to, as the target shows it now.

    `gone`: a topic of that id is there no more, and an id is never given twice. `start`: its first
    offset; None where the target did not say.
    """

    gone: bool
    start: int | None = None


@dataclasses.dataclass(frozen=True)
class Retirement:
    is_due: bool
    reason: str


def retirement(old: OldRuns, log: RemoteLog) -> Retirement:
    """Whether the runs may go, and why, or why not yet."""
    if log.gone:
        return Retirement(True, "the remote topic that they lead to was deleted or made anew")
    if not old.superseded:
        return Retirement(False, "no later generation of the partition has written runs yet")
    if old.ends is None:
        return Retirement(True, "they name no record")
    if log.start is None:
        return Retirement(False, "the target does not say what it still holds")
    if old.ends > log.start:
        kept = f"the remote topic still holds records from {log.start} on, and they end at"
        return Retirement(False, f"{kept} {old.ends}")
    return Retirement(True, "the remote topic holds none of their records any more")


class Starts(NamedTuple):
    """From which offset on one partition matters on either side; None where nobody said."""

    source: int | None = None
    target: int | None = None


class Border(NamedTuple):
    """What ends at or below it on both sides is asked for by nobody any more."""

    upstream: int
    downstream: int


def border(*, before: Starts, now: Starts, groups: Starts, position: int) -> Border | None:
    """Where what is still needed begins; None: all of it is.

    `before` and `now` are the first offsets that both clusters hold, as they said some time ago and
    just now: who had read a record when it went has judged it by its run since. `groups`: the
    lowest committed offsets. Nothing behind `position` was copied for good.
    """
    upstream = _lowest((before.source, now.source), groups.source, position)
    downstream = _lowest((before.target, now.target), groups.target)
    if not upstream or not downstream:
        return None
    return Border(upstream, downstream)


def _lowest(said: tuple[int | None, int | None], *others: int | None) -> int | None:
    """None where a cluster did not say; groups there may be none."""
    if None in said:
        return None
    return min(value for value in (*said, *others) if value is not None)


def blocks_between(*, oldest: int, upstream: int, downstream: int) -> range:
    """The first offsets of blocks that go.

    `oldest` is where the first block begins, `upstream` and `downstream` where those do that are
    the last to begin at or below the border on that side. Whatever begins before both ends there.

    The last one stays, as the neighbour of what is still asked for; and so does the oldest, by
    which an offset of long ago is told from one that another wrote before this flow: its answer is
    the next run's start, as in every gap.
    """
    return range(oldest + 1, min(upstream, downstream))


def notes_due(ends: Mapping[int, int], *, is_current: bool, start: int | None) -> Iterable[int]:
    """The first offsets of blocks of notes that go, of one partition in one generation.

    `ends` has where the runs of each block end upstream, `start` where the source's log begins; a
    note goes when no record that it explains can be read any more. The last block of the current
    generation stays, for the flow may go on with it; of an earlier one all goes: what the partition
    began again with was judged anew.
    """
    if not is_current:
        return sorted(ends)
    if start is None:
        return ()
    return [first for first in sorted(ends)[:-1] if ends[first] <= start]

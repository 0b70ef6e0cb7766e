"""Retention of offset runs: they are deleted when their records can no longer be looked up.

- A generation of a partition ends when its source topic or remote topic is recreated, or when an
  operator restarts the partition. Its runs still describe records of the remote topic. Flows with
  skip.replicated need them while one of those records can be read.
- Of the current generation, runs before the start of both logs are deleted, except for the oldest
  block.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple


@dataclasses.dataclass(frozen=True, kw_only=True)
class OldRuns:
    """A partition's runs in a generation in which it has no position.

    - `ends`: the downstream offset after their last record; None if there is no run.
    - `superseded`: a later generation of the same partition has written runs since.
    """

    superseded: bool
    ends: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RemoteLog:
    """Their remote partition, as the target shows it now.

    - `gone`: the topic with that id was deleted; ids are never reused.
    - `start`: its log start; None if the target did not report it.
    """

    gone: bool
    start: int | None = None


@dataclasses.dataclass(frozen=True)
class RetirementDecision:
    is_due: bool
    reason: str


def retirement(old: OldRuns, log: RemoteLog) -> RetirementDecision:
    """Return whether the runs may be deleted, and why or why not."""
    if log.gone:
        return RetirementDecision(
            True, "the remote topic that they map to was deleted or recreated"
        )
    if not old.superseded:
        return RetirementDecision(
            False, "no later generation of the partition has written runs yet"
        )
    if old.ends is None:
        return RetirementDecision(True, "they contain no records")
    if log.start is None:
        return RetirementDecision(
            False, "the target does not report the log start of the remote topic"
        )
    if old.ends > log.start:
        kept = f"the remote topic holds records from {log.start} on, and the runs end at"
        return RetirementDecision(False, f"{kept} {old.ends}")
    return RetirementDecision(True, "the remote topic no longer holds any of their records")


class LogStarts(NamedTuple):
    """The first offset that matters on each side; None if unknown."""

    source: int | None = None
    target: int | None = None


class RetentionBoundary(NamedTuple):
    """Runs that end at or below it on both sides are no longer looked up."""

    upstream: int
    downstream: int


def retention_boundary(
    *, before: LogStarts, now: LogStarts, groups: LogStarts, position: int
) -> RetentionBoundary | None:
    """Return where the needed runs begin; None if all are needed.

    - `before` and `now`: the log starts of both clusters, some time ago and now. A flow that had
      read a record when it was deleted has looked up its run since.
    - `groups`: the lowest committed offsets.
    - `position`: records after it are not copied permanently.
    """
    upstream = _lowest((before.source, now.source), groups.source, position)
    downstream = _lowest((before.target, now.target), groups.target)
    if not upstream or not downstream:
        return None
    return RetentionBoundary(upstream, downstream)


def _lowest(said: tuple[int | None, int | None], *others: int | None) -> int | None:
    """Return the lowest offset; None if a cluster did not report its log start."""
    if None in said:
        return None
    return min(value for value in (*said, *others) if value is not None)


def blocks_between(*, oldest: int, upstream: int, downstream: int) -> range:
    """Return the first offsets of blocks to delete.

    - `oldest`: where the first block begins. `upstream` and `downstream`: where the last blocks
      begin that start at or below the border on that side. Any block that begins before both ends
      there.
    - The last one stays, as the neighbor of what is still looked up.
    - The oldest one stays too. It distinguishes a very old offset from one that another program
      wrote before this flow: its translation is the next run's start, as in every gap.
    """
    return range(oldest + 1, min(upstream, downstream))


def notes_due(ends: Mapping[int, int], *, is_current: bool, start: int | None) -> Iterable[int]:
    """Return the first offsets of skip notes to delete, of one partition in one generation.

    - `ends`: where the runs of each block end upstream. `start`: the source's log start. A note is
      deleted when no record that it explains can be read.
    - The last block of the current generation stays, because the flow may append to it. Of an
      earlier generation all are deleted: the partition's records were judged again.
    """
    if not is_current:
        return sorted(ends)
    if start is None:
        return ()
    return [first for first in sorted(ends)[:-1] if ends[first] <= start]

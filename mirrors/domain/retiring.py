"""When the offset runs of an earlier generation may go: once nobody can ask for their records.

A generation of a partition ends when its source topic or its remote topic is made anew, or when an
operator lets the partition begin again. Its runs still name records of the remote topic: whoever
skips by them what was copied needs them as long as one of those records can be read.
"""

from __future__ import annotations

import dataclasses


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

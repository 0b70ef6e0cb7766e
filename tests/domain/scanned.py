"""What the offset map of one partition must return, from a scan of the log, without runs or blocks.

Who goes on at the answer finds what it has not read, and of what it has read as little as can be:
the first record on the target whose own source offset is the offset asked for or a later one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Copy(NamedTuple):
    """A record on the target: its offset there, and the one that the source gave it."""

    downstream: int
    upstream: int


class ScannedOffset(NamedTuple):
    """For one upstream offset. `head`: whether the target's log begins with what nobody can tell of
    (orphans, an aborted transaction, other writers), and this offset lies before all that counts.
    """

    downstream: int
    outcome: str
    head: bool = False


def counted(copies: Iterable[Copy]) -> list[Copy]:
    """In the target's order. What was copied twice counts where all that follows it follows too:
    so a copy does not count when one of its own or of an earlier record comes behind it."""
    kept: list[Copy] = []
    for copy in sorted(copies, reverse=True):
        if not kept or copy.upstream < kept[-1].upstream:
            kept.append(copy)
    return kept[::-1]


def scan(copies: Iterable[Copy], position: int) -> list[ScannedOffset]:
    """For each upstream offset up to the position, the position itself, and one beyond it.

    Empty where nothing was copied: then there is no map.
    """
    kept = [copy for copy in counted(copies) if copy.upstream < position]
    if not kept:
        return []
    end = kept[-1].downstream + 1
    found: list[ScannedOffset] = []
    at = 0
    for upstream in range(position):
        while at < len(kept) and kept[at].upstream < upstream:
            at += 1
        if at == len(kept):
            found.append(ScannedOffset(end, "gap"))
        elif kept[at].upstream == upstream:
            found.append(ScannedOffset(kept[at].downstream, "exact"))
        else:
            head = at == 0 and kept[at].downstream > 0
            found.append(ScannedOffset(kept[at].downstream, "gap", head))
    return [*found, ScannedOffset(end, "exact"), ScannedOffset(end, "ahead")]

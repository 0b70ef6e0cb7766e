"""What the map of one partition must say, from a scan of what lies there: no runs, no blocks.

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


class Scanned(NamedTuple):
    """For one upstream offset. `after`: no record that counts lies in [after, downstream).

    `head`: nothing that counts was copied before it, though the target's log begins earlier.
    """

    downstream: int
    outcome: str
    after: int
    head: bool


def counted(copies: Iterable[Copy]) -> list[Copy]:
    """In the target's order. What was copied twice counts where all that follows it follows too:
    so a copy does not count when one of its own or of an earlier record comes behind it."""
    kept: list[Copy] = []
    for copy in sorted(copies, reverse=True):
        if not kept or copy.upstream < kept[-1].upstream:
            kept.append(copy)
    return kept[::-1]


def scan(copies: Iterable[Copy], position: int) -> list[Scanned]:
    """For each upstream offset up to the position, the position itself, and one beyond it.

    Empty where nothing was copied: then there is no map.
    """
    kept = [copy for copy in counted(copies) if copy.upstream < position]
    if not kept:
        return []
    end = kept[-1].downstream + 1
    found: list[Scanned] = []
    at, after = 0, 0
    for upstream in range(position):
        while at < len(kept) and kept[at].upstream < upstream:
            after = kept[at].downstream + 1
            at += 1
        if at == len(kept):
            found.append(Scanned(end, "gap", end, head=False))
            continue
        copy = kept[at]
        is_it = copy.upstream == upstream
        head = not at and copy.downstream > 0 and not is_it
        found.append(Scanned(copy.downstream, "exact" if is_it else "gap", after, head))
    return [*found, Scanned(end, "exact", end, head=False), Scanned(end, "ahead", end, head=False)]

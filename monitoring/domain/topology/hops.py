"""How many flows a record takes from one cluster to another."""

from __future__ import annotations

from collections.abc import Iterable


def reaches(
    edges: Iterable[tuple[str, str]], starts: Iterable[str] | None = None
) -> dict[str, dict[str, int]]:
    """Cluster -> the clusters that its records get to, with the fewest flows on the way.

    In the order of hops, then of names; of those clusters that are asked about.
    """
    after: dict[str, list[str]] = {}
    for source, target in sorted(set(edges)):
        after.setdefault(source, []).append(target)
    asked = after if starts is None else [start for start in starts if start in after]
    return {start: _from(start, after) for start in asked}


def _from(start: str, after: dict[str, list[str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    edge, hops = [start], 0
    while edge:
        hops += 1
        edge = sorted({way for name in edge for way in after.get(name, ())} - {start, *found})
        found |= dict.fromkeys(edge, hops)
    return found

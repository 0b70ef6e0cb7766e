"""Connected groups of clusters, and the column of each cluster: sources left, targets right."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

Edge = tuple[str, str]


def components(names: Collection[str], edges: Iterable[Edge]) -> list[list[str]]:
    """Groups of connected clusters, the largest first, then by name."""
    place = {name: {name} for name in sorted(names)}
    for source, target in edges:
        if place[source] is not place[target]:
            joined = place[source] | place[target]
            place |= dict.fromkeys(joined, joined)
    groups = {min(group): sorted(group) for group in place.values()}
    return sorted(groups.values(), key=lambda group: (-len(group), group))


def ranks(
    names: Collection[str], edges: Collection[Edge], sources: Sequence[str] = ()
) -> dict[str, int]:
    """A column for each cluster of one group, from 0.

    Flows lead to the right. In a cycle, some lead back: as few as the greedy order of Eades, Lin
    and Smyth finds. Among equals, the first of `sources` stands left.
    """
    order = {name: at for at, name in enumerate(_order(names, edges, sources))}
    forward = {tuple(sorted(edge, key=order.__getitem__)) for edge in edges}
    before: dict[str, set[str]] = {name: set() for name in names}
    after: dict[str, set[str]] = {name: set() for name in names}
    for left, right in forward:
        before[right].add(left)
        after[left].add(right)
    rank: dict[str, int] = {}
    for name in sorted(names, key=order.__getitem__):
        rank[name] = max((rank[left] + 1 for left in before[name]), default=0)
    # A pure source stands next to its first target.
    for name in names:
        if not before[name] and after[name]:
            rank[name] = min(rank[right] for right in after[name]) - 1
    first = min(rank.values(), default=0)
    return {name: column - first for name, column in rank.items()}


def _order(names: Collection[str], edges: Collection[Edge], sources: Sequence[str]) -> list[str]:
    senior = {name: at for at, name in enumerate(sources)}
    left: list[str] = []
    right: list[str] = []
    rest = set(names)
    while rest:
        outs = dict.fromkeys(rest, 0)
        ins = dict.fromkeys(rest, 0)
        for source, target in edges:
            if source in rest and target in rest:
                outs[source] += 1
                ins[target] += 1
        if ends := sorted(name for name in rest if not outs[name] and ins[name]):
            right = ends + right
            rest -= set(ends)
        elif starts := sorted(name for name in rest if not ins[name]):
            left += starts
            rest -= set(starts)
        else:
            one = min(
                rest,
                key=lambda n: (ins[n] - outs[n], -ins[n] - outs[n], senior.get(n, len(senior)), n),
            )
            left.append(one)
            rest.remove(one)
    return left + right


def reaches(
    edges: Iterable[tuple[str, str]], starts: Iterable[str] | None = None
) -> dict[str, dict[str, int]]:
    """Cluster -> the clusters that its records reach, with the smallest number of flows.

    Ordered by hops, then by name; for the clusters in `starts`, or for all.
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

"""Vertical layout of each column: few crossings, items near their neighbors."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from monitoring.domain.topology.graph import Edge

BOX_HEIGHT = 66.0
LABEL_HEIGHT = 40.0
BEND_HEIGHT = 10.0
PORT = 14.0  # between two lines at one side of a box
GAP = 14.0  # between two items of a column
_SWEEPS = 6


@dataclasses.dataclass(eq=False)
class Item:
    """The box of a cluster, the label of a flow, or a bend where a flow passes a column."""

    column: int
    height: float
    name: str = ""
    edge: Edge = ("", "")
    is_label: bool = False
    left: list[Item] = dataclasses.field(default_factory=list)
    right: list[Item] = dataclasses.field(default_factory=list)
    y: float = 0.0

    @property
    def key(self) -> tuple[str, ...]:
        return (self.name,) if self.name else (*sorted(self.edge), *self.edge)


@dataclasses.dataclass(frozen=True)
class Layout:
    """Columns from left to right (clusters in even ones), and each flow's items in that order."""

    columns: list[list[Item]]
    routes: dict[Edge, list[Item]]


def stack(rank: dict[str, int], edges: Sequence[Edge]) -> Layout:
    """All items of one group with their positions, at least GAP apart."""
    columns: list[list[Item]] = [[] for _ in range(2 * max(rank.values()) + 1)]
    boxes = {name: Item(2 * rank[name], BOX_HEIGHT, name=name) for name in sorted(rank)}
    for box in boxes.values():
        columns[box.column].append(box)
    routes = {edge: _route(edge, boxes, columns) for edge in sorted(edges)}
    for box in boxes.values():
        lines = max(len(box.left), len(box.right))
        box.height = max(BOX_HEIGHT, (lines + 1) * PORT)
    _order(columns)
    _position(columns)
    top = min(item.y - item.height / 2 for column in columns for item in column)
    for column in columns:
        for item in column:
            item.y = round(item.y - top, 1)
    return Layout(columns, routes)


def _route(edge: Edge, boxes: dict[str, Item], columns: list[list[Item]]) -> list[Item]:
    """From the left box to the right one, whichever is the source; the label in the middle."""
    ends = sorted((boxes[name] for name in edge), key=lambda box: box.column)
    first, last = ends[0].column, ends[1].column
    middle = first + 2 * ((last - first) // 4) + 1
    route = [ends[0]]
    for column in range(first + 1, last):
        is_label = column == middle
        height = LABEL_HEIGHT if is_label else BEND_HEIGHT
        item = Item(column, height, edge=edge, is_label=is_label)
        columns[column].append(item)
        route.append(item)
    route.append(ends[1])
    for left, right in itertools.pairwise(route):
        left.right.append(right)
        right.left.append(left)
    return route


def _order(columns: list[list[Item]]) -> None:
    for column in columns:
        column.sort(key=lambda item: item.key)
    for sweep in range(_SWEEPS):
        places = {id(item): float(at) for column in columns for at, item in enumerate(column)}
        to_right = sweep % 2 == 0
        for column in columns if to_right else reversed(columns):
            means = {
                id(item): _mean([places[id(other)] for other in near], places[id(item)])
                for item in column
                for near in [item.left if to_right else item.right]
            }
            column.sort(key=lambda item, means=means: means[id(item)])  # type: ignore[misc]
            places |= {id(item): float(at) for at, item in enumerate(column)}


def _position(columns: list[list[Item]]) -> None:
    for column in columns:
        _fit(column, [0.0] * len(column))
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            preferred = [
                _mean([other.y for other in [*item.left, *item.right]], item.y) for item in column
            ]
            _fit(column, preferred)


def _fit(column: list[Item], preferred: list[float]) -> None:
    """The positions nearest to the preferred ones that keep order and distance.

    Pool adjacent violators algorithm.
    """
    offset, offsets = 0.0, []
    for at, item in enumerate(column):
        if at:
            offset += (column[at - 1].height + item.height) / 2 + GAP
        offsets.append(offset)
    pools: list[list[float]] = []
    for preference, offset in zip(preferred, offsets, strict=True):
        pools.append([preference - offset, 1])
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            mean, count = pools.pop()
            other, more = pools[-1]
            pools[-1] = [(mean * count + other * more) / (count + more), count + more]
    starts = [mean for mean, count in pools for _ in range(int(count))]
    for item, start, offset in zip(column, starts, offsets, strict=True):
        item.y = start + offset


def _mean(values: Sequence[float], alone: float) -> float:
    return sum(values) / len(values) if values else alone

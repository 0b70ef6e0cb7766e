"""The drawing of the topology: boxes of clusters, lines of flows, labels.

The layout depends only on names and flows, so nothing moves when figures change.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Collection, Iterable

from monitoring.domain.topology.graph import Edge, components, ranks
from monitoring.domain.topology.vertical_order import LABEL_HEIGHT, PORT, Item, Layout, stack

BOX_WIDTH = 176.0
LABEL_WIDTH = 140.0
MARGIN = 8.0
BETWEEN = 36.0  # between two groups without a flow between them
ROW_WIDTH = 1180.0  # maximum width of a row of groups
HEAD = 9.0  # length of an arrow's head

Point = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Box:
    """A rectangle; `name` is the cluster's, empty for a label."""

    name: str
    x: float
    y: float
    width: float
    height: float


@dataclasses.dataclass(frozen=True)
class Connector:
    """One flow: its route from source to target, its arrow head, and the box of its label.

    The route alternates between curves and straight segments from one of `points` to the next.
    """

    source: str
    target: str
    points: tuple[Point, ...]
    label: Box

    @functools.cached_property
    def path(self) -> str:
        words = [f"M{_at(self.points[0])}"]
        for at in range(1, len(self.points)):
            start, end = self.points[at - 1], self.points[at]
            if at % 2 == 0:
                words.append(f"L{_at(end)}")
            else:
                middle = (start[0] + end[0]) / 2
                words.append(f"C{_at((middle, start[1]))} {_at((middle, end[1]))} {_at(end)}")
        return "".join(words)

    @functools.cached_property
    def head(self) -> str:
        x, y = self.points[-1]
        tip = x + (HEAD if x > self.points[-2][0] else -HEAD)
        return f"M{_at((tip, y))}L{_at((x, y - 5))}L{_at((x, y + 5))}Z"


@dataclasses.dataclass(frozen=True)
class Drawing:
    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Connector, ...]


def thickness(bytes_per_second: float | None) -> float:
    """How wide a line is: 1.5 when idle, about one more for each ten times the rate."""
    return round(1.5 + 0.9 * math.log10(1 + max(0.0, bytes_per_second or 0.0) / 1000), 1)


def draw(names: Iterable[str], edges: Iterable[Edge], sources: Iterable[str] = ()) -> Drawing:
    """The same drawing for the same clusters and flows, in any order.

    Of two clusters that replicate to each other, the first one in `sources` stands left.
    """
    flows = tuple(sorted(set(edges)))
    known = tuple(sorted({*names, *(name for edge in flows for name in edge)}))
    return _draw(known, flows, tuple(sources))


@functools.lru_cache(maxsize=64)
def _draw(known: tuple[str, ...], flows: tuple[Edge, ...], sources: tuple[str, ...]) -> Drawing:
    """Cached, because a page requests the same drawing every few seconds."""
    boxes: list[Box] = []
    lines: list[Connector] = []
    x, y, row_height, width = MARGIN, MARGIN, 0.0, 0.0
    for group in components(known, flows):
        inside = set(group)
        part = _draw_group(group, [edge for edge in flows if edge[0] in inside], sources)
        if x > MARGIN and x + part.width > ROW_WIDTH:
            x, y, row_height = MARGIN, y + row_height + BETWEEN, 0.0
        boxes += [_moved(box, x, y) for box in part.boxes]
        lines += [_moved_line(line, x, y) for line in part.lines]
        x, row_height = x + part.width, max(row_height, part.height)
        width = max(width, x)
        x += BETWEEN
    return Drawing(width + MARGIN, y + row_height + MARGIN, tuple(boxes), tuple(lines))


def _draw_group(group: Collection[str], edges: list[Edge], sources: tuple[str, ...]) -> Drawing:
    stacked = stack(ranks(group, edges, sources), edges)
    starts = _starts(stacked)
    ports = _ports(stacked)
    lines = tuple(_line(edge, route, starts, ports) for edge, route in stacked.routes.items())
    items = [item for column in stacked.columns for item in column]
    boxes = tuple(_box(item, starts[item.column]) for item in items if item.name)
    width = starts[-1] + BOX_WIDTH
    height = max(item.y + item.height / 2 for item in items)
    return Drawing(width, height, boxes, lines)


def _starts(stacked: Layout) -> list[float]:
    """The left edge of each column; steeper lines get more space before it."""
    starts = [0.0]
    for at, column in enumerate(stacked.columns[:-1]):
        steep = max((abs(item.y - other.y) for item in column for other in item.right), default=0)
        starts.append(starts[at] + _width(at) + 36 + round(min(96.0, steep / 4)))
    return starts


def _width(column: int) -> float:
    return LABEL_WIDTH if column % 2 else BOX_WIDTH


def _ports(stacked: Layout) -> dict[tuple[Edge, str], float]:
    """The height at which each flow meets its boxes, in the order of the other ends."""
    found: dict[tuple[Edge, str], float] = {}
    for box in (item for column in stacked.columns for item in column if item.name):
        for side in (box.left, box.right):
            ordered = sorted(side, key=lambda item: (item.y, item.key))
            for at, item in enumerate(ordered):
                found[item.edge, box.name] = box.y + (at - (len(ordered) - 1) / 2) * PORT
    return found


def _line(
    edge: Edge, route: list[Item], starts: list[float], ports: dict[tuple[Edge, str], float]
) -> Connector:
    points: list[Point] = []
    for at, item in enumerate(route):
        x = starts[item.column]
        if 0 < at < len(route) - 1:
            points += [(x, item.y), (x + _width(item.column), item.y)]
        else:
            points.append((x if at else x + BOX_WIDTH, round(ports[edge, item.name], 1)))
    if route[-1].name != edge[1]:
        points.reverse()
    (before, _), (x, y) = points[-2:]
    points[-1] = (x - HEAD if x > before else x + HEAD, y)
    label = next(item for item in route if item.is_label)
    return Connector(*edge, tuple(points), _box(label, starts[label.column]))


def _box(item: Item, x: float) -> Box:
    height = LABEL_HEIGHT if item.is_label else item.height
    return Box(item.name, x, round(item.y - height / 2, 1), _width(item.column), height)


def _moved(box: Box, x: float, y: float) -> Box:
    return dataclasses.replace(box, x=box.x + x, y=round(box.y + y, 1))


def _moved_line(line: Connector, x: float, y: float) -> Connector:
    points = tuple((px + x, round(py + y, 1)) for px, py in line.points)
    return dataclasses.replace(line, points=points, label=_moved(line.label, x, y))


def _at(point: Point) -> str:
    return f"{point[0]:g},{point[1]:g} "

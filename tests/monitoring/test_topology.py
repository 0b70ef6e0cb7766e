"""The topology drawing: no overlap, a stable layout, each line ends at its cluster."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.domain.topology import Box, Connector, Drawing, draw, reaches, thickness

NAMES = [f"c{number}" for number in range(12)]
PAIRS = [(a, b) for a in NAMES for b in NAMES if a != b]
graphs = st.tuples(st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(PAIRS), max_size=24))

PAIR = [("east", "west")]
BOTH = [("east", "west"), ("west", "east")]
CHAIN = list(itertools.pairwise(["a", "b", "c", "d"]))
HUB = [(f"s{number:02}", "hub") for number in range(19)]
FAN_OUT = [("hub", f"s{number:02}") for number in range(19)]
RING = [*CHAIN, ("d", "a")]
TWENTY = [(f"c{n}", f"c{m}") for n in range(20) for m in (n + 1, n + 7) if m < 20]
SHAPES = {
    "pair": PAIR,
    "both": BOTH,
    "chain": CHAIN,
    "hub": HUB,
    "fan-out": FAN_OUT,
    "ring": RING,
    "twenty": TWENTY,
}


def _overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def _curve(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    """Points of the curve that `Line.path` draws between two points."""
    middle = (start[0] + end[0]) / 2
    found = []
    for step in range(1, 12):
        t = step / 12
        a, b, c, d = (1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3
        x = a * start[0] + (b + c) * middle + d * end[0]
        y = (a + b) * start[1] + (c + d) * end[1]
        found.append((x, y))
    return found


def _way(line: Connector) -> list[tuple[float, float]]:
    found = list(line.points)
    for at in range(0, len(line.points) - 1, 2):
        found += _curve(*line.points[at : at + 2])
    return found


def _inside(point: tuple[float, float], box: Box) -> bool:
    x, y = point
    return box.x < x < box.x + box.width and box.y < y < box.y + box.height


def _check(picture: Drawing) -> None:
    things = [*picture.boxes, *(line.label for line in picture.lines)]
    for one, other in itertools.combinations(things, 2):
        assert not _overlap(one, other), (one, other)
    for box in things:
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= picture.width
        assert box.y + box.height <= picture.height
    for line in picture.lines:
        strangers = [thing for thing in things if thing is not line.label]
        hit = [(point, box) for point in _way(line) for box in strangers if _inside(point, box)]
        assert hit == []


@given(graphs)
def test_no_two_things_overlap_and_no_line_goes_through_a_box_or_a_label_of_another(
    graph: tuple[set[str], set[tuple[str, str]]],
) -> None:
    names, edges = graph
    picture = draw(names, edges)
    _check(picture)
    assert {box.name for box in picture.boxes} == names | {end for edge in edges for end in edge}
    assert {(line.source, line.target) for line in picture.lines} == edges


@given(graphs, st.randoms(use_true_random=False))
def test_the_picture_is_the_same_whichever_order_rows_come_in(
    graph: tuple[set[str], set[tuple[str, str]]], chance: random.Random
) -> None:
    names, edges = sorted(graph[0]), sorted(graph[1])
    first = draw(names, edges)
    chance.shuffle(names)
    chance.shuffle(edges)
    assert draw(names, edges) == first


@pytest.mark.parametrize("shape", SHAPES)
def test_known_shapes_are_drawn_whole(shape: str) -> None:
    _check(draw([], SHAPES[shape]))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_line_leaves_its_source_and_its_head_touches_its_target(shape: str) -> None:
    picture = draw([], SHAPES[shape])
    boxes = {box.name: box for box in picture.boxes}
    for line in picture.lines:
        source, target = boxes[line.source], boxes[line.target]
        x, y = line.points[0]
        assert x in (source.x, source.x + source.width)
        assert source.y < y < source.y + source.height
        x, y = line.points[-1]
        assert min(abs(x - target.x), abs(x - target.x - target.width)) == pytest.approx(9)
        assert target.y < y < target.y + target.height


def _columns(edges: list[tuple[str, str]]) -> list[list[str]]:
    found: dict[float, list[str]] = {}
    for box in draw([], edges).boxes:
        found.setdefault(box.x, []).append(box.name)
    return [sorted(found[x]) for x in sorted(found)]


def test_flows_lead_from_left_to_right() -> None:
    assert _columns(CHAIN) == [["a"], ["b"], ["c"], ["d"]]
    assert _columns(HUB)[1] == ["hub"]
    assert _columns(FAN_OUT)[0] == ["hub"]
    assert _columns([*CHAIN, ("x", "d")])[2] == ["c", "x"]


def test_the_first_source_of_a_pair_stands_left_whatever_its_name() -> None:
    back_and_forth = [("primary", "backup"), ("backup", "primary")]
    places = {box.name: box.x for box in draw([], back_and_forth, ["primary", "backup"]).boxes}
    assert places["primary"] < places["backup"]
    swapped = {box.name: box.x for box in draw([], back_and_forth, ["backup", "primary"]).boxes}
    assert swapped["backup"] < swapped["primary"]


def test_both_directions_of_a_pair_are_two_lines_with_two_labels() -> None:
    first, second = draw([], BOTH).lines
    assert first.points[0][0] < first.points[-1][0]
    assert second.points[0][0] > second.points[-1][0]
    assert first.label.y != second.label.y


def test_a_cluster_with_many_flows_is_tall_enough_for_all_of_them() -> None:
    hub = next(box for box in draw([], HUB).boxes if box.name == "hub")
    ends = sorted(line.points[-1][1] for line in draw([], HUB).lines)
    assert all(later - earlier >= 14 for earlier, later in itertools.pairwise(ends))
    assert hub.height >= ends[-1] - ends[0]


def test_clusters_without_a_flow_are_drawn_and_groups_stand_side_by_side() -> None:
    picture = draw(["lonely"], [*PAIR, ("north", "south")])
    assert "lonely" in {box.name for box in picture.boxes}
    assert len({box.y for box in picture.boxes if box.name != "lonely"}) == 1


def test_a_line_is_wider_the_more_it_carries() -> None:
    rates = (None, 0, 1_000, 1_000_000, 1_000_000_000)
    assert [thickness(rate) for rate in rates] == [1.5, 1.5, 1.8, 4.2, 6.9]


def test_hops_are_the_fewest_flows_on_the_way() -> None:
    assert reaches(CHAIN)["a"] == {"b": 1, "c": 2, "d": 3}
    assert reaches([*CHAIN, ("a", "d")])["a"] == {"b": 1, "d": 1, "c": 2}
    assert reaches(BOTH) == {"east": {"west": 1}, "west": {"east": 1}}
    assert reaches([]) == {}

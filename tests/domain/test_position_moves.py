"""Moves of positions: destinations, refusals, and the rows that are written."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.generation import generation_of
from mirrors.domain.topics.positions import (
    Destination,
    PositionMove,
    changed_since,
    digest_of,
    moved,
    plan_move,
)

KNOWN = Position(
    topic="orders",
    partition=0,
    position=50,
    source_cluster="S",
    source_topic_id="s",
    target_cluster="T",
    target_topic_id="t",
    leader_epoch=3,
    next_downstream=60,
    map_end=59,
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("earliest", Destination(edge="earliest")),
        (" Latest ", Destination(edge="latest")),
        ("0", Destination(offset=0)),
        ("1970-01-01T00:00:01Z", Destination(timestamp_ms=1000)),
    ],
)
def test_destinations(text: str, wanted: Destination) -> None:
    assert Destination.parse(text) == wanted


@pytest.mark.parametrize("text", ["", "-1", "9" * 20, "2026-05-01T08:00:00", "soon", "\u0661"])
def test_wrong_destinations(text: str) -> None:
    with pytest.raises(InvalidSettings):
        Destination.parse(text)


@given(st.integers(0, 100))
def test_a_move_within_the_range_counts_its_offsets(to: int) -> None:
    move = plan_move(KNOWN, to=to, first=0, end=100, topic_id="s")
    assert move.refusal == ""
    assert move.offsets == abs(to - 50)
    row = moved(KNOWN, to)
    assert (row.position, row.leader_epoch) == (to, None)
    # Only a move back begins another generation of the offset map.
    assert (generation_of(row) == generation_of(KNOWN)) is (to >= 50)
    assert (row.next_downstream is None) is (to < 50)
    assert PositionMove.from_dict(move.to_dict()) == move


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"topic_id": "other"}, "recreated"),
        ({"topic_id": None}, "does not exist"),
        ({"to": 101}, "offsets 0 to 100; 101 is outside"),
        ({"first": None, "unknown": "Cluster S is unreachable."}, "unreachable"),
    ],
)
def test_refusals(changes: dict[str, object], words: str) -> None:
    facts = {"to": 10, "first": 0, "end": 100, "topic_id": "s", **changes}
    move = plan_move(KNOWN, **facts)  # type: ignore[arg-type]
    assert (move.effect, move.to, move.offsets) == ("refused", None, 0)
    assert words in move.refusal


def test_data_loss_is_decided_first() -> None:
    known = dataclasses.replace(KNOWN, remote_end=40)
    move = plan_move(known, to=10, first=0, end=100, topic_id="s")
    assert "waits for a decision" in move.refusal


def test_a_preview_is_overtaken_by_any_other_position() -> None:
    move = plan_move(KNOWN, to=10, first=0, end=100, topic_id="s")
    tp = ("orders", 0)
    assert changed_since([move], {tp: KNOWN}) == []
    assert changed_since([move], {tp: moved(KNOWN, 51)}) == ["orders-0"]
    assert changed_since([move], {}) == ["orders-0"]
    assert digest_of([move]) != digest_of([dataclasses.replace(move, to=11)])

"""Rows of decisions that left records behind: gaps that were accepted, positions moved forward."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.topics.positions import PositionMove
from mirrors.models import Flow, Gap, PositionChange
from mirrors.services.failover.left_behind import accepted_losses_of
from tests.pages import world

START = timezone.now() - timedelta(days=1)


@pytest.fixture
def flow(db: None) -> Flow:
    return world.flow()


def decided(flow: Flow, state: str, minutes: int, **more: Any) -> None:
    facts = GapFacts(kind="remote_missing", position=90, first=10, end=120, was="1")
    row = {
        "topic": "orders", "partition": 0, "kind": facts.kind, "state": state,
        "facts": dataclasses.asdict(facts), "opened_at": START, "seen_at": START,
        "closed_at": START + timedelta(minutes=minutes), "decided_by": "ann",
        "decided_why": "too old",
    }  # fmt: skip
    Gap.objects.create(flow=flow, **{**row, **more})


def moved(flow: Flow, position: int, to: int, minutes: int, *, first: int = 0) -> None:
    move = PositionMove(
        topic="orders", partition=0, position=position, resets=0, to=to, first=first, end=500
    )
    PositionChange.objects.create(
        flow=flow, topics="orders", to=str(to), requested_by="ann", requested_at=START,
        rows=[move.to_dict()], applied_by="bob", why="broken records",
        applied_at=START + timedelta(minutes=minutes),
    )  # fmt: skip


def sentences(flow: Flow) -> list[str]:
    return [loss.sentence("east", "west") for loss in accepted_losses_of(flow)]


def test_decisions_on_gaps_and_moves_of_positions_are_named(flow: Flow) -> None:
    decided(flow, "accepted", 1)
    moved(flow, 90, 130, 2)
    assert sentences(flow) == [
        "orders-0: at most 80 records of east are not on west and will not be replicated, by "
        "decision of ann (too old).",
        "orders-0: at most 40 records of east are not on west and will not be replicated, by "
        "decision of bob (broken records).",
    ]
    assert accepted_losses_of(world.flow()) == ()


def test_one_that_was_not_applied_says_nothing(flow: Flow) -> None:
    decided(flow, "accepted", 1, closed_at=None)
    decided(flow, "closed", 1, partition=1)
    moved(flow, 90, 130, 2)
    PositionChange.objects.update(applied_at=None)
    assert sentences(flow) == []


def test_what_copies_everything_again_ends_it(flow: Flow) -> None:
    moved(flow, 90, 130, 1)
    # Only a part of it is copied again: the upper bound stays.
    moved(flow, 130, 100, 2)
    assert len(sentences(flow)) == 1
    moved(flow, 100, 20, 3, first=20)
    assert sentences(flow) == []
    decided(flow, "accepted", 4)
    decided(flow, "restarted", 5)
    assert sentences(flow) == []

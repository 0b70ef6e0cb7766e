"""Blockers of a first start, and their sentences."""

from __future__ import annotations

import dataclasses

import pytest

from mirrors.domain.migration.start_check import TargetActivity

ENDS = {("a.orders", 0): 9, ("a.orders", 1): 3, ("mm2-status.a.internal", 0): 4}
QUIET = TargetActivity(
    source="a",
    target="b",
    seconds=4.0,
    group_name="a-mm2",
    group="Empty",
    copies=True,
    before=ENDS,
    after=ENDS,
    internal=frozenset({"mm2-status.a.internal"}),
    positions="mm2-positions.a.internal",
)


def test_where_nothing_moves_a_flow_may_start() -> None:
    assert (QUIET.code, QUIET.sentence(), QUIET.moved) == ("", "", {})
    assert dataclasses.replace(QUIET, group="Stable", copies=False).code == ""


@pytest.mark.parametrize(
    ("after", "code"),
    [
        ({("a.orders", 0): 10, ("a.orders", 1): 5}, "foreign_writer"),
        ({("a.new", 0): 1}, "foreign_writer"),
        ({("mm2-status.a.internal", 0): 5, ("a.orders", 0): 10}, "mirrormaker2"),
        ({("mm2-positions.a.internal", 0): 1}, "other_installation"),
    ],
)
def test_what_moved_tells_who_writes(after: dict[tuple[str, int], int], code: str) -> None:
    signs = dataclasses.replace(QUIET, after={**ENDS, **after})
    assert signs.code == code
    assert signs.sentence().startswith("Not started: another program writes what a->b writes.")
    assert "accept_other_writers=true" in signs.sentence()
    if code == "foreign_writer" and ("a.orders", 0) in after:
        assert "within 4.0 s: a.orders (3)." in signs.sentence()


def test_heartbeats_of_the_pair_on_the_target_are_mm2s() -> None:
    signs = dataclasses.replace(QUIET, beats=True)
    assert signs.code == "mirrormaker2"
    assert "MirrorMaker 2 writes heartbeats of a->b on b." in signs.sentence()
    assert dataclasses.replace(signs, copies=False).code == ""


def test_members_of_mm2s_group_are_enough() -> None:
    signs = dataclasses.replace(QUIET, group="Stable")
    assert signs.code == "mirrormaker2"
    assert "The group a-mm2 of MirrorMaker 2 on b is Stable." in signs.sentence()
    assert "take over from it" in signs.sentence()

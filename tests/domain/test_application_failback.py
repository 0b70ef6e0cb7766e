"""The next step of the failback of one application."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mirrors.domain.failback.application import LeftRecords, ReverseState, next_step

NOTHING = LeftRecords(records=0)
READY = ReverseState(name="b->a", state="running", topics=["shop"], owed=0, skips=True)


def step(reverse: ReverseState | None, left: LeftRecords = NOTHING, **facts: bool) -> str:
    plain = {"same_names": True, "forward_skips": True, "is_fenced": False}
    return next_step(reverse, left, old="a", standby="b", **{**plain, **facts}).code


@pytest.mark.parametrize(
    ("left", "code"),
    [
        (LeftRecords(records=0), "create"),
        (LeftRecords(records=3), "list"),
        (LeftRecords(records=None), "list"),
        (LeftRecords(records=3, listing="queued"), "decide"),
        (LeftRecords(records=3, listing="preparing"), "decide"),
        (LeftRecords(records=3, listing="failed"), "decide"),
        (LeftRecords(records=3, listing="running", undecided=3), "decide"),
        (LeftRecords(records=3, listing="running", undecided=0), "create"),
        (LeftRecords(records=3, listing="succeeded", undecided=0), "create"),
        # A person closed the list.
        (LeftRecords(records=3, listing="succeeded", undecided=3), "create"),
        (LeftRecords(records=3, listing="aborted"), "create"),
        # More were found than the failover counted.
        (LeftRecords(records=0, listing="running", undecided=2), "decide"),
    ],
)
def test_records_that_the_failover_left_come_first(left: LeftRecords, code: str) -> None:
    assert step(None, left) == code


@pytest.mark.parametrize(
    ("changes", "facts", "code"),
    [
        ({"topics": []}, {}, "select"),
        ({"skips": False}, {}, "select"),
        ({"skips": False}, {"same_names": False}, "simulate"),
        ({}, {"forward_skips": False}, "select"),
        ({"state": "paused"}, {}, "start"),
        ({}, {"is_fenced": True}, "lift"),
        ({"owed": None}, {}, "wait"),
        ({"owed": 1}, {}, "wait"),
        ({}, {}, "simulate"),
    ],
)
def test_then_the_reverse_flow(changes: dict[str, Any], facts: dict[str, bool], code: str) -> None:
    assert step(dataclasses.replace(READY, **changes), **facts) == code

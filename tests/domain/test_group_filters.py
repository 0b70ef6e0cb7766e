"""Consumer groups are selected as in MM2, with a reason for a person."""

from __future__ import annotations

from typing import Any

import pytest

from mirrors.domain.filters.groups import GroupSelection
from mirrors.domain.specs import FlowSettings
from tests.domain.cases import golden, settings

CASES = [case for case in golden("filters")["cases"] if case["filter"] == "groups"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["config"]))
def test_groups_are_filtered_as_in_java(case: dict[str, Any]) -> None:
    selection = GroupSelection(FlowSettings.from_properties(case["config"]))
    answers = [[group, selection.decide(group).chosen] for group, _ in case["rows"]]
    assert answers == case["rows"]


@pytest.mark.parametrize(
    ("group", "kinds", "chosen", "reason"),
    [
        ("app", {}, True, "matches groups (a.*)"),
        ("b", {}, False, "matches no element of groups"),
        ("a-tmp", {}, False, "matches groups.exclude (.*-tmp)"),
        ("app", {"kind": "consumer"}, True, "matches groups (a.*)"),
        ("app", {"protocol": ""}, True, "matches groups (a.*)"),
        ("app", {"kind": "share"}, False, "is a share group, which has no consumer offsets"),
        (
            "app",
            {"protocol": "connect"},
            False,
            "is a group with the protocol connect, which has no consumer offsets",
        ),
    ],
)
def test_each_answer_names_its_rule(
    group: str, kinds: dict[str, str], chosen: bool, reason: str
) -> None:
    selection = GroupSelection(settings(groups="a.*", groups_exclude=".*-tmp"))
    assert selection.decide(group, **kinds) == (chosen, reason)
    empty = GroupSelection(settings(groups=""))
    assert empty.decide("app").reason == "groups is empty, so it matches nothing"

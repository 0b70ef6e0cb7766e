"""The fence that a run will use, and what a person has to do for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mirrors.domain.failover.preconditions import FenceSupport, effective_fence


def seen(**facts: Any) -> dict[str, Any]:
    return dataclasses.asdict(FenceSupport(how="acl", fallback="person", **facts))


@pytest.mark.parametrize(
    ("facts", "how", "words"),
    [
        ({}, "acl", "ACLs deny Write"),
        (
            {"refused": "it has no authorizer."},
            "person",
            "ACLs cannot fence east: it has no authorizer. A person fences the producers: stop "
            "them, or revoke their credentials or their network path to east. Then confirm",
        ),
        ({"bare": ("orders",), "everybody": None}, "person", "some topics have no ACL"),
        ({"bare": ("orders",), "everybody": True}, "acl", "ACLs deny Write"),
    ],
)
def test_where_access_rules_cannot_work_what_replaces_them_is_said(
    facts: dict[str, Any], how: str, words: str
) -> None:
    found = effective_fence(seen(**facts), how="acl", fallback="person", source="east")
    assert found.how == how
    assert words in found.sentence


def test_what_is_configured_is_said_where_nothing_was_asked() -> None:
    for how in ("webhook", "command", "person", "none"):
        assert effective_fence(None, how=how, fallback="person", source="east").how == how
    unknown = effective_fence(None, how="acl", fallback="person", source="east")
    assert "is unknown" in unknown.sentence
    assert "keep producers away" in unknown.sentence

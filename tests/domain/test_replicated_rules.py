"""Identical names in both directions: allowed when each flow excludes the other's records."""

from __future__ import annotations

import pytest

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.flows.conflicts import check_flow
from mirrors.domain.specs import FlowSettings, FlowSpec
from tests.domain.cases import IDENTITY, flow


def identity(source: str, target: str, skip: str = "true", **keys: str) -> FlowSpec:
    return flow(source, target, replication_policy_class=IDENTITY, skip_replicated=skip, **keys)


def test_both_directions_are_allowed_when_both_leave_out_what_the_other_wrote() -> None:
    assert check_flow(identity("a", "b"), [identity("b", "a")]) == []
    assert check_flow(identity("a", "b"), [identity("b", "c"), identity("c", "a")]) == []


@pytest.mark.parametrize(
    ("one", "other"), [("false", "false"), ("true", "false"), ("false", "true")]
)
def test_else_the_loop_is_refused_and_the_key_is_named(one: str, other: str) -> None:
    with pytest.raises(InvalidSettings, match=r"set skip\.replicated=true on each of them\."):
        check_flow(identity("a", "b", one), [identity("b", "a", other)])


def test_a_writer_whose_notes_come_late_is_refused() -> None:
    careless = flow("c", "a", delivery="at_least_once")
    with pytest.raises(InvalidSettings, match="Set delivery=exactly_once on c->a"):
        check_flow(identity("a", "b"), [careless])
    with pytest.raises(InvalidSettings, match="Set delivery=exactly_once on c->a"):
        check_flow(careless, [identity("a", "b")])
    assert check_flow(careless, [identity("a", "b", "false")]) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("delivery", "at_least_once"), ("consumer.isolation.level", "read_uncommitted")],
)
def test_settings_under_which_it_could_not_be_exact_are_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidSettings, match=rf"skip\.replicated=true needs {key}="):
        FlowSettings.from_properties({"skip.replicated": "true", key: value})

"""The scope of a failover: what a plan of one application has, and what its boundary reports."""

from __future__ import annotations

import pytest

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.failback.application import remote_patterns
from mirrors.domain.failback.reverse_flow import with_topics, without_topics
from mirrors.domain.failover.plan import plan_failover
from mirrors.domain.failover.preconditions import DriftFinding, TargetTopics
from mirrors.domain.failover.scope import Scope, ScopeNames, scope_of
from mirrors.domain.failover.scope_boundary import within
from mirrors.domain.flows.named_offsets import without_offsets_of
from tests.domain.test_failover import GroupSnapshot, make_group_partition, partition, picture


def both_sides() -> object:
    rows = (partition(topic="shop.a"), partition(topic="shop.b"), partition(topic="audit"))
    groups = (
        GroupSnapshot(
            group="shop", group_partitions=(make_group_partition(group="shop", topic="shop.a"),)
        ),
        GroupSnapshot(
            group="mixed",
            group_partitions=(
                make_group_partition(group="mixed", topic="shop.b"),
                make_group_partition(group="mixed", topic="audit"),
            ),
        ),
        GroupSnapshot(
            group="other", group_partitions=(make_group_partition(group="other", topic="audit"),)
        ),
    )
    drift = tuple(
        DriftFinding(kind="deleted topic", name=f"east.{name}", sentence=f"{name} was deleted.")
        for name in ("shop.a", "audit")
    )
    seen = TargetTopics(drifted=drift)
    return picture(partitions=rows, groups=groups, target_topics=seen)


def planned(**scope: tuple[str, ...]) -> object:
    return plan_failover(within(both_sides(), Scope(**scope)))  # type: ignore[arg-type]


def test_a_plan_of_an_application_has_its_topics_and_groups_alone() -> None:
    plan = planned(topics=(r"shop\..*",), groups=("shop", "mixed"))
    assert {row.topic for row in plan.partitions} == {"shop.a", "shop.b"}
    assert {(row.group, row.topic) for row in plan.places} == {
        ("shop", "shop.a"),
        ("mixed", "shop.b"),
    }
    assert {row.where for row in plan.warnings if row.code == "scope_reads_outside"} == {"mixed"}
    assert not [row for row in plan.warnings if row.code == "scope_read_from_outside"]
    assert "audit was deleted" not in str(plan.blockers)
    assert plan.to_dict()["scope"] == {"topics": (r"shop\..*",), "groups": ("shop", "mixed")}


def test_without_groups_each_reader_of_its_topics_belongs_to_it() -> None:
    plan = planned(topics=("audit",))
    assert {row.group for row in plan.places} == {"mixed", "other"}
    one = planned(topics=("audit",), groups=("other",))
    (warning,) = (row for row in one.warnings if row.code == "scope_read_from_outside")
    assert warning.where == "mixed"
    assert "it stays on" in warning.sentence


def test_a_scope_without_a_topic_blocks_and_another_scope_is_another_plan() -> None:
    empty = planned(topics=("nosuch",))
    assert "scope_empty" in {row.code for row in empty.blockers}
    assert planned(topics=("audit",)).digest != planned(topics=("audit",), groups=(".*",)).digest


@pytest.mark.parametrize("given", [{"topics": []}, {"topics": ["("]}, {"topics": ["a"] * 101}])
def test_a_scope_that_cannot_be_used_is_refused(given: dict[str, list[str]]) -> None:
    if len(given["topics"]) > 100:
        given = {"topics": [f"a{number}" for number in range(101)]}
    with pytest.raises(InvalidSettings):
        scope_of(given)


def test_everything_is_no_scope() -> None:
    assert scope_of(None) is None
    assert scope_of({}) is None


@pytest.mark.parametrize("before", [None, "old", "old, x.*", ""])
def test_topics_that_are_included_again_leave_the_settings_as_they_were(before: str | None) -> None:
    given = {"topics": ".*"} | ({} if before is None else {"topics.exclude": before})
    after = with_topics(without_topics(given, ["shop.a", "b-c"]), ["shop.a", "b-c"], before)
    assert after == given


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ({"start.from": "shop.a:0:5,other:1:7"}, {"start.from": "other:1:7"}),
        ({"start.from": "shop.a:0:5"}, {}),
        ({"start.from": "latest"}, {"start.from": "latest"}),
        ({"run.until": "shop.a:0:5,other:1:7"}, {"run.until": "other:1:7"}),
        # Without it the flow would replicate without an end.
        ({"run.until": "shop.a:0:5,shop.a:1:7"}, {"run.until": "shop.a:0:5,shop.a:1:7"}),
        ({}, {}),
    ],
)
def test_offsets_of_excluded_topics_leave_the_settings(
    given: dict[str, str], after: dict[str, str]
) -> None:
    assert without_offsets_of(given, ["shop.a"]) == after


def test_on_the_standby_an_application_has_remote_topics_too() -> None:
    assert remote_patterns([r"shop\..*"], "") == [r"shop\..*"]
    names = ScopeNames(Scope(topics=tuple(remote_patterns([r"a|shop\..*"], "east."))))
    assert all(map(names.has_topic, ("shop.x", "a", "east.a", "east.shop.x")))
    assert not any(map(names.has_topic, ("east.other", "eastXa", "east.east.a")))

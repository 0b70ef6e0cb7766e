"""Differences between source and target: topic configs and ACLs, by MM2's rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirrors.domain.cluster_snapshot import (
    DEFAULT,
    DYNAMIC_TOPIC,
    STATIC_BROKER,
    ClusterSnapshot,
    ConfigEntry,
    TopicState,
)
from mirrors.domain.filters.topics import ConfigSelection
from mirrors.domain.specs import ClusterSpec, FlowSettings, FlowSpec
from mirrors.domain.topics.acls import WRITE_RULES, AclRule, plan_acls
from mirrors.domain.topics.configs import plan_configs
from mirrors.domain.topics.plan import CopiedTopic, NewTopic
from mirrors.domain.topics.sync_plan import SyncPlan
from tests.domain.cases import golden

DEFAULTS = {"retention.ms": ConfigEntry("604800000", DEFAULT)}


def flow(**properties: str) -> FlowSpec:
    pair = (ClusterSpec(alias=alias, bootstrap_servers="h:1") for alias in ("a", "b"))
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return FlowSpec.build(source=next(pair), target=next(pair), properties=given)


def cluster(name: str, configs: dict[str, ConfigEntry], **more: Any) -> ClusterSnapshot:
    topic = TopicState(name=name, partitions=1, replication_factor=1, configs=configs)
    return ClusterSnapshot(taken_at=0, cluster_id=name, brokers=1, topics={name: topic}, **more)


def plan(
    source: dict[str, ConfigEntry], target: dict[str, ConfigEntry], **properties: str
) -> tuple[list[tuple[str, str | None, str | None]], tuple[str, ...]]:
    copied = CopiedTopic(topic="t", remote_topic="a.t", partitions=1, reason="")
    changes, left = plan_configs(
        cluster("t", source), cluster("a.t", target), flow(**properties), (copied,)
    )
    return [(change.key, change.before, change.after) for change in changes], left


def test_a_value_set_on_the_source_follows_and_then_is_in_step() -> None:
    source = {"retention.ms": ConfigEntry("1000")}
    assert plan(source, DEFAULTS)[0] == [("retention.ms", "604800000 (default)", "1000")]
    assert plan(source, source)[0] == []


def test_a_value_set_by_hand_on_the_target_goes_back_to_the_default() -> None:
    by_hand = {"retention.ms": ConfigEntry("5")}
    assert plan(DEFAULTS, by_hand)[0] == [("retention.ms", "5", None)]
    assert plan(DEFAULTS, DEFAULTS)[0] == []


def test_defaults_of_the_source_are_pinned_when_asked_for() -> None:
    changes = plan(DEFAULTS, DEFAULTS, use_defaults_from="source")[0]
    assert changes == [("retention.ms", "604800000 (default)", "604800000")]


@pytest.mark.parametrize("entry", [
    ConfigEntry("1", STATIC_BROKER), ConfigEntry("1", read_only=True),
    ConfigEntry(None, sensitive=True),
])  # fmt: skip
def test_what_the_broker_sets_or_hides_is_left_alone(entry: ConfigEntry) -> None:
    assert plan({"retention.ms": entry}, {"retention.ms": ConfigEntry("5")}) == ([], ())


def test_an_excluded_setting_is_left_alone() -> None:
    by_hand = {"min.insync.replicas": ConfigEntry("2")}
    assert plan({"min.insync.replicas": ConfigEntry("1")}, by_hand)[0] == []


def test_a_setting_that_the_target_does_not_know_is_left_with_the_reason() -> None:
    changes, left = plan({"brand.new": ConfigEntry("1")}, {})
    assert changes == []
    assert left == (
        "brand.new of t is not synchronized: the target's Kafka version does not know it.",
    )


def test_a_topic_whose_settings_cannot_be_read_is_left_and_its_neighbours_are_not() -> None:
    source = cluster("t", {}, failed={"t": "Cluster a: cannot read the settings of topic t."})
    copied = CopiedTopic(topic="t", remote_topic="a.t", partitions=1, reason="")
    by_hand = cluster("a.t", {"retention.ms": ConfigEntry("5")})
    changes, left = plan_configs(source, by_hand, flow(), (copied,))
    assert changes == ()
    assert left[0].startswith("The configs of t cannot be compared. Cluster a: cannot read")


@pytest.mark.parametrize(
    "case",
    [case for case in golden("config_sync")["cases"] if case["when"] != "topic creation"],
    ids=lambda case: str(case["filter"]),
)
def test_settings_follow_as_mm2_would_make_them(case: dict[str, Any]) -> None:
    selection = ConfigSelection(FlowSettings.from_properties(case["filter"]))
    later = selection.later({name: ConfigEntry("7", source) for name, source, _ in case["rows"]})
    words = {None: "DELETE", "7": "SET"}
    told = {name: words[later[name]] if name in later else "leave" for name, _, _ in case["rows"]}
    assert told == {name: action for name, _, action in case["rows"]}


def rule(topic: str, operation: str, permission: str = "ALLOW", **more: str) -> AclRule:
    return AclRule(
        name=topic,
        principal="User:x",
        host="*",
        operation=operation,
        permission=permission,
        **more,
    )


def test_allow_all_becomes_read_write_stays_and_deny_is_carried_whole() -> None:
    source = [
        rule("t", "ALL"),
        rule("t", "WRITE"),
        rule("t", "ALL", "DENY"),
        rule("t", "WRITE", "DENY"),
    ]
    plan = plan_acls(source, [], flow())
    assert [(r.name, r.permission, r.operation) for r in plan.make] == [
        ("a.t", "DENY", "ALL"),
        ("a.t", "ALLOW", "READ"),
        ("a.t", "DENY", "WRITE"),
    ]
    assert [sentence.split(":")[0] for sentence in plan.left] == [
        "ACLs that allow WRITE are not synchronized"
    ]
    assert plan.codes == {plan.left[0]: WRITE_RULES}


def test_prefixes_the_star_and_topics_that_are_not_copied_are_left_and_named() -> None:
    source = [rule("t", "READ", pattern="PREFIXED"), rule("*", "READ"), rule("__offsets", "READ")]
    plan = plan_acls(source, [], flow())
    assert plan.make == ()
    assert len(plan.left) == 3


def test_rules_that_are_there_are_not_made_again() -> None:
    assert plan_acls([rule("t", "ALL")], [rule("a.t", "READ")], flow()).make == ()


def test_a_digest_names_exactly_one_plan() -> None:
    def new(partitions: int) -> SyncPlan:
        topic = NewTopic(
            topic="t", remote_topic="a.t", partitions=partitions, replication_factor=1, configs={}
        )
        return SyncPlan(create=(topic,))

    assert new(1).digest == new(1).digest != new(2).digest
    assert json.dumps([change.to_dict() for change in new(1).changes()])


def test_the_source_of_a_value_decides_not_the_value_alone() -> None:
    same = {"retention.ms": ConfigEntry("604800000", DYNAMIC_TOPIC)}
    assert plan(same, DEFAULTS)[0] == [("retention.ms", "604800000 (default)", "604800000")]

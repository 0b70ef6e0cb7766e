"""A plan of topics: what is created, extended, replicated or left out, and why."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.cluster_snapshot import ClusterSnapshot, ConfigEntry, TopicState
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.plan import TopicPlan, plan_topics
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules
from tests.domain.cases import IDENTITY, cluster, flow, golden, laws
from tests.domain.snapshots import picture, topic

PLAIN = flow("primary", "backup")


def applied(plan: TopicPlan, target: ClusterSnapshot) -> ClusterSnapshot:
    """What the target looks like once everything in the plan was done."""
    topics = dict(target.topics)
    for new in plan.create:
        topics[new.remote_topic] = topic(new.remote_topic, new.partitions, new.replication_factor)
    for growth in plan.grow:
        grown = dataclasses.replace(topics[growth.remote_topic], partitions=growth.partitions)
        topics[growth.remote_topic] = grown
    return dataclasses.replace(target, topics=topics)


def reason(plan: TopicPlan, name: str) -> tuple[str, bool]:
    (row,) = (row for row in plan.skipped if row.topic == name)
    return row.reason, row.fault


def test_a_topic_is_made_with_the_partitions_and_configs_of_the_source() -> None:
    source = picture(topic("orders", 6, retention_ms="1000", min_insync_replicas="2"))
    plan = plan_topics(source, picture(), PLAIN)
    (new,) = plan.create
    assert (new.topic, new.remote_topic) == ("orders", "primary.orders")
    assert (new.partitions, new.replication_factor) == (6, 2)
    assert new.configs == {"retention.ms": "1000"}
    (copied,) = plan.copied
    assert (copied.remote_topic, copied.partitions) == ("primary.orders", 6)
    assert copied.reason == "matches topics (.*)"
    assert plan.warnings == ()


def test_a_remote_topic_grows_and_never_shrinks() -> None:
    source = picture(topic("a", 4), topic("b", 4), topic("c", 4))
    target = picture(topic("primary.a", 2), topic("primary.b", 4), topic("primary.c", 9))
    plan = plan_topics(source, target, PLAIN)
    assert [(g.remote_topic, g.partitions_now, g.partitions) for g in plan.grow] == [
        ("primary.a", 2, 4)
    ]
    assert plan.create == ()
    assert [row.topic for row in plan.copied] == ["a", "b", "c"]
    assert plan.warnings == (
        "c: the remote topic has 9 partitions, the source 4: the extra ones stay empty.",
    )


def test_a_skipped_topic_has_the_reason_of_its_rule_and_is_no_fault() -> None:
    plan = plan_topics(picture(topic("__x"), topic("backup.y")), picture(), PLAIN)
    assert reason(plan, "__x") == ("matches topics.exclude (__.*)", False)
    assert reason(plan, "backup.y") == (
        "already originates from backup: replicating it would create a loop",
        False,
    )


@pytest.mark.parametrize(
    ("source", "target", "spec", "words"),
    [
        (topic("a" * 242), picture(), PLAIN, "its remote name has 250 characters (primary.aaa"),
        (topic("a.b"), picture(topic("primary.a_b")), PLAIN,
         "its remote name primary.a.b differs from the target's primary.a_b only in dots"),
        (topic("a"), picture(brokers=1), flow("primary", "backup", replication_factor="3"),
         "replication.factor is 3, but the target has 1 brokers"),
        (topic("a"), picture(cluster_id="one"),
         flow("primary", "backup", replication_policy_class=IDENTITY),
         "source and target are the same cluster"),
    ],
    ids=["too long", "dots and underscores", "too few brokers", "same cluster"],
)  # fmt: skip
def test_what_kafka_would_refuse_is_a_fault_beforehand(
    source: TopicState, target: ClusterSnapshot, spec: FlowSpec, words: str
) -> None:
    plan = plan_topics(picture(source, cluster_id="one"), target, spec)
    text, fault = reason(plan, source.name)
    assert text.startswith(words)
    assert fault
    assert (plan.create, plan.grow, plan.copied) == ((), (), ())


def test_of_two_new_names_that_collide_the_first_is_made() -> None:
    spec = FlowSpec(source=cluster("a.b"), target=cluster("c"))
    plan = plan_topics(picture(topic("x.y"), topic("x_y")), picture(), spec)
    assert [new.remote_topic for new in plan.create] == ["a.b.x.y"]
    assert reason(plan, "x_y")[1]


def test_a_topic_that_is_there_already_needs_no_room_for_its_name() -> None:
    target = picture(topic("primary.a.b"), topic("primary.a_b"), brokers=1)
    spec = flow("primary", "backup", replication_factor="3")
    plan = plan_topics(picture(topic("a.b", 2)), target, spec)
    assert [growth.remote_topic for growth in plan.grow] == ["primary.a.b"]
    assert plan.skipped == ()


@pytest.mark.parametrize("variant", ["default", "separator"])
def test_new_topics_have_the_overrides_that_a_live_mm2_left(variant: str) -> None:
    keys = {"use.defaults.from": "source"} if variant == "separator" else {}
    spec = FlowSpec(source=cluster("source"), target=cluster("target"), properties=keys)
    for name, row in golden(f"topic_configs_{variant}").items():
        configs = {
            key: ConfigEntry(entry["value"], entry["source"])
            for key, entry in row["source_not_default"].items()
        }
        if not row["remote"] or row["remote"].endswith("heartbeats"):
            continue
        here = dataclasses.replace(topic(name, row["source_partitions"]), configs=configs)
        plan = plan_topics(picture(here), picture(), spec)
        taken = {new.topic: new.configs for new in plan.create}.get(name)
        overrides = row["target_overrides"]
        if variant == "separator":
            # There MM2 pins the built-in defaults as well, which the recording does not list.
            overrides = {key: value for key, value in overrides.items() if key in configs}
        if taken is not None:
            assert taken == overrides, name


NAMES = st.sampled_from(["a", "a.b", "a_b", "heartbeats", "b.x", "__y", "z.internal", "long" * 62])
TOPICS = st.lists(
    st.builds(topic, NAMES, st.integers(1, 5)), max_size=5, unique_by=lambda state: state.name
)
REMOTE = st.lists(
    st.builds(topic, NAMES.map("primary.{}".format), st.integers(1, 5)),
    max_size=5,
    unique_by=lambda state: state.name,
)
SPECS = st.sampled_from([
    PLAIN, flow("primary", "backup", replication_policy_class=IDENTITY),
    flow("primary", "backup", topics="a.*", replication_factor="2"),
])  # fmt: skip


@laws
@given(source=TOPICS, target=REMOTE, brokers=st.integers(0, 3), spec=SPECS)
def test_a_plan_that_was_applied_leaves_nothing_to_do(
    source: list[TopicState], target: list[TopicState], brokers: int, spec: FlowSpec
) -> None:
    here, there = picture(*source), picture(*target, brokers=brokers)
    plan = plan_topics(here, there, spec)
    again = plan_topics(here, applied(plan, there), spec)
    assert (again.create, again.grow) == ((), ())
    assert [row.remote_topic for row in again.copied] == [row.remote_topic for row in plan.copied]
    assert again.skipped == plan.skipped


@laws
@given(source=TOPICS, target=REMOTE, spec=SPECS)
def test_every_topic_is_either_copied_or_skipped_and_a_plan_survives_json(
    source: list[TopicState], target: list[TopicState], spec: FlowSpec
) -> None:
    plan = plan_topics(picture(*source), picture(*target), spec)
    told = sorted([*(row.topic for row in plan.copied), *(row.topic for row in plan.skipped)])
    assert told == sorted(state.name for state in source)
    assert {new.topic for new in plan.create} <= {row.topic for row in plan.copied}
    assert TopicPlan.from_json(plan.to_json()) == plan


def test_a_snapshot_survives_json() -> None:
    before = picture(topic("a", 2, retention_ms="1"), cluster_id="c")
    raw: dict[str, Any] = json.loads(json.dumps(before.to_dict()))
    assert ClusterSnapshot.from_dict(raw) == before


def routed(*rules: TransformRule) -> FlowSpec:
    return flow("primary", "backup", **{TRANSFORMS: format_rules(rules)})


def test_routes_are_made_and_grow_like_the_topic_of_the_policy() -> None:
    rule = TransformRule(topics="orders", topic="null", routes=("orders-eu", "orders-ap"))
    source = picture(topic("orders", 4, retention_ms="1000"))
    target = picture(topic("orders-ap", 2))
    plan = plan_topics(source, target, routed(rule))
    assert [(new.topic, new.remote_topic, new.partitions) for new in plan.create] == [
        ("orders", "primary.orders", 4),
        ("orders", "orders-eu", 4),
    ]
    assert {tuple(new.configs.items()) for new in plan.create} == {(("retention.ms", "1000"),)}
    assert [(row.remote_topic, row.partitions) for row in plan.grow] == [("orders-ap", 4)]
    [copied] = plan.copied
    assert copied.routes == rule.routes
    assert [row.remote_topic for row in plan.pairs] == ["primary.orders", *rule.routes]
    assert TopicPlan.from_json(plan.to_json()) == plan
    assert plan_topics(source, applied(plan, target), routed(rule)).create == ()


def test_a_target_topic_belongs_to_one_source_topic() -> None:
    rule = TransformRule(topics="a.*", topic="null", routes=("eu",))
    plan = plan_topics(picture(topic("a1"), topic("a2"), topic("b")), picture(), routed(rule))
    assert [row.topic for row in plan.copied] == ["a1", "b"]
    why, is_fault = reason(plan, "a2")
    assert is_fault
    assert why.startswith("eu already gets the records of a1, and a target topic belongs to one")
    own = TransformRule(topics="b", topic="null", routes=("primary.b",))
    why, is_fault = reason(plan_topics(picture(topic("b")), picture(), routed(own)), "b")
    assert is_fault
    assert "the route primary.b, which is the name that the policy gives" in why

"""Warnings about a remote topic, shown before it is created."""

from __future__ import annotations

import dataclasses

import pytest

from mirrors.domain.cluster_snapshot import ConfigEntry
from mirrors.domain.topics.plan import plan_topics
from tests.domain.cases import flow
from tests.domain.snapshots import picture, topic

PLAIN = flow("primary", "backup")


@pytest.mark.parametrize(
    ("brokers", "asked", "factor", "warned"),
    [
        (1, None, 1, True),
        (2, None, 2, False),
        (3, None, 2, False),
        (3, "3", 3, False),
        (1, "1", 1, False),
        (1, "-1", -1, False),
    ],
)
def test_the_replication_factor_is_the_least_of_two_and_the_brokers_there(
    brokers: int, asked: str | None, factor: int, warned: bool
) -> None:
    spec = flow("p", "b", **({} if asked is None else {"replication_factor": asked}))
    plan = plan_topics(picture(topic("a")), picture(brokers=brokers), spec)
    assert plan.create[0].replication_factor == factor
    assert bool(plan.warnings) is warned
    if warned:
        assert plan.warnings[0].startswith("The target has 1 broker: remote topics get replication")


@pytest.mark.parametrize(
    ("source", "remote", "sentence"),
    [
        ({"max_message_bytes": "9000"}, {"max_message_bytes": "1000"},
         "max.message.bytes is 9000 on the source and 1000 on the target: larger batches are "
         "rejected and stop their partition."),
        ({"retention_ms": "-1"}, {"retention_ms": "1000"},
         "retention.ms is -1 on the source and 1000 on the target: the target deletes records "
         "that the source still has."),
        ({"message_timestamp_after_max_ms": "9223372036854775807"},
         {"message_timestamp_after_max_ms": "3600000"},
         "message.timestamp.after.max.ms is 9223372036854775807 on the source and 3600000 on the "
         "target: records with timestamps further ahead are rejected."),
        ({}, {"message_timestamp_type": "LogAppendTime"},
         "the target sets timestamps itself (LogAppendTime): source timestamps are not kept."),
        ({"cleanup_policy": "delete"}, {"cleanup_policy": "compact"},
         "cleanup.policy is delete on the source and compact on the target."),
        ({}, {"min_insync_replicas": "2"}, "min.insync.replicas on the target is 2, but the "
         "replication factor is 1: every write will be rejected."),
    ],
)  # fmt: skip
def test_what_a_remote_topic_will_not_take_is_warned_of(
    source: dict[str, str], remote: dict[str, str], sentence: str
) -> None:
    here, there = topic("orders", **source), topic("primary.orders", **remote)
    assert plan_topics(picture(here), picture(there), PLAIN).warnings == (f"orders: {sentence}",)


@pytest.mark.parametrize(
    ("source", "remote"),
    [
        ({"max_message_bytes": "1000"}, {"max_message_bytes": "9000"}),
        ({"retention_ms": "1000"}, {"retention_ms": "-1"}),
        ({"retention_ms": "9000", "cleanup_policy": "compact"},
         {"retention_ms": "1000", "cleanup_policy": "compact"}),
        ({"message_timestamp_type": "LogAppendTime"}, {"message_timestamp_type": "CreateTime"}),
        ({"cleanup_policy": "compact,delete"}, {"cleanup_policy": "delete, compact"}),
        ({"max_message_bytes": "odd"}, {"max_message_bytes": "1"}),
    ],
)  # fmt: skip
def test_what_is_wide_enough_is_not_warned_of(
    source: dict[str, str], remote: dict[str, str]
) -> None:
    here, there = topic("orders", **source), topic("primary.orders", **remote)
    assert plan_topics(picture(here), picture(there), PLAIN).warnings == ()


def test_the_targets_own_defaults_are_seen_on_its_other_topics() -> None:
    limit = {"message.timestamp.after.max.ms": ConfigEntry("3600000", "DEFAULT_CONFIG")}
    other = dataclasses.replace(topic("other"), configs=limit)
    far = {"message.timestamp.after.max.ms": ConfigEntry("9000000", "DEFAULT_CONFIG")}
    names = [dataclasses.replace(topic(name), configs=far) for name in "abcde"]
    (warning,) = plan_topics(picture(*names), picture(other), PLAIN).warnings
    assert warning.startswith("a, b, c and 2 more topics: message.timestamp.after.max.ms is")
    carried = dataclasses.replace(topic("x"), configs={
        "message.timestamp.after.max.ms": ConfigEntry("9000000")})  # fmt: skip
    assert plan_topics(picture(carried), picture(other), PLAIN).warnings == ()

"""Explanation: for each reason of non-replication, the rule that says so and its fix."""

from __future__ import annotations

import pytest

from mirrors.domain.explanation import (
    GROUP_FIXES,
    TOPIC_FIXES,
    Explanation,
    GroupObservation,
    TopicObservation,
    explain_group,
    explain_topic,
)
from mirrors.domain.specs import FlowSettings
from tests.domain.cases import flow

AT = "14:00:00 UTC"
ON = {"sync.group.offsets.enabled": "true"}


def first_no(found: Explanation) -> str | None:
    rules = [rule.rule for rule in found.rules if rule.passed is False]
    assert found.replicated is (not rules)
    return rules[0] if rules else None


TOPICS = [
    ("orders", {"topics": "x"}, None, "topics"),
    ("orders.tmp", {"topics_exclude": ".*tmp"}, None, "topics.exclude"),
    ("mm2-x.internal", {"topics_exclude": ""}, None, "internal"),
    ("mm2-runs.x.internal", {"topics_exclude": "", "replication_policy_separator": "_"}, None,
     "bookkeeping"),
    ("orders", {"topic_rename": "orders(.*) -> $1"}, None, "topic.rename"),
    ("b.orders", {}, None, "cycle"),
    ("orders", {}, None, "found"),
    ("orders", {}, TopicObservation(state="skipped", reason="its name is too long", at=AT),
     "possible"),
    ("orders", {}, TopicObservation(state="gap", reason="2 partitions stand.", at=AT), "copying"),
    ("orders", {}, TopicObservation(state="in_sync", reason="", at=AT), None),
]  # fmt: skip


@pytest.mark.parametrize(("topic", "keys", "seen", "rule"), TOPICS, ids=lambda v: str(v)[:24])
def test_each_reason_of_a_topic_has_its_rule_in_order_and_a_fix(
    topic: str, keys: dict[str, str], seen: TopicObservation | None, rule: str | None
) -> None:
    found = explain_topic(topic, flow("a", "b", **keys), looked_at=AT, seen=seen)
    assert first_no(found) == rule
    assert (found.fix is None) == (rule is None)
    names = [row.rule for row in found.rules]
    assert names[-3:] == ["found", "possible", "copying"]
    assert {row[3] for row in TOPICS} - {None} == set(TOPIC_FIXES)


def test_a_topic_that_was_not_looked_for_yet_is_judged_by_its_name_alone() -> None:
    found = explain_topic("orders", flow("a", "b"))
    assert (found.replicated, found.reason) == (True, "matches topics (.*)")
    missing = explain_topic("orders", flow("a", "b", refresh_topics_enabled="false"), looked_at=AT)
    assert "only when it starts" in missing.reason


def make_observation(state: str = "in_sync", **facts: object) -> GroupObservation:
    usual = {"topic": "orders", "partition": 0, "source_offset": 5, "translated": 5}
    return GroupObservation(**{**usual, "state": state, "reason": f"is {state}", **facts})  # type: ignore[arg-type]


GROUPS = [
    ("app", {"groups": "x"}, [], "groups"),
    ("app", {"groups": ""}, [], "groups"),
    ("console-consumer-7", {}, [], "groups.exclude"),
    ("app", {},
     [GroupObservation(topic="", partition=-1, state="excluded", reason="is a share group")],
     "kind"),
    ("app", {}, [], "found"),
    ("app", ON, [GroupObservation(topic="", partition=-1, state="unknown", reason="no offset")],
     "offsets"),
    ("app", ON, [make_observation("unknown", source_offset=None, translated=None)], "offsets"),
    ("app", ON, [make_observation("not_copied")], "topics"),
    ("app", ON, [make_observation("unknown", translated=None)], "map"),
    ("app", ON, [make_observation("failed")], "rights"),
    ("app", {}, [make_observation("off")], "sync.group.offsets.enabled"),
    ("app", ON, [make_observation("active")], "members"),
    ("app", ON, [make_observation("kept")], "own progress"),
    ("app", ON, [make_observation(), make_observation("not_copied", partition=1)], None),
    ("app", ON, [GroupObservation(topic="", partition=-1, state="waiting", reason="new")], None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "keys", "group_partitions", "rule"), GROUPS, ids=lambda v: str(v)[:24]
)
def test_each_reason_of_a_group_has_its_rule_in_order_and_a_fix(
    group: str, keys: dict[str, str], group_partitions: list[GroupObservation], rule: str | None
) -> None:
    found = explain_group(
        group,
        FlowSettings.from_properties(keys),
        looked_at=AT,
        next_look="The next look is at 14:05:00 UTC.",
        group_partitions=group_partitions,
    )
    assert first_no(found) == rule
    assert (found.fix is None) == (rule is None)
    names = [row.rule for row in found.rules]
    assert names == [
        "kind", "groups", "groups.exclude", "found", "topics", "offsets", "map", "rights",
        "sync.group.offsets.enabled", "members", "own progress",
    ]  # fmt: skip
    assert {row[3] for row in GROUPS} - {None} == set(GROUP_FIXES)
    if rule == "found":
        assert found.reason.endswith("The next look is at 14:05:00 UTC.")


def test_places_that_do_not_follow_are_named_although_the_others_do() -> None:
    rows = [make_observation(), make_observation("active", partition=1)]
    found = explain_group(
        "app", FlowSettings.from_properties(ON), looked_at=AT, group_partitions=rows
    )
    told = {rule.rule: rule.reason for rule in found.rules}
    assert found.replicated
    assert told["members"] == "not in 1 of 2 partitions, such as orders-1: is active"

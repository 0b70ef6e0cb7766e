"""The target's topics as the sync tasks last saw them, in a failover plan."""

from __future__ import annotations

import dataclasses

import pytest
from django.utils import timezone

from mirrors.domain.cluster_snapshot import TopicState
from mirrors.domain.topics.acls import WRITE_RULES, AclRule
from mirrors.domain.topics.plan import Growth, NewTopic
from mirrors.domain.topics.sync_plan import ConfigChange, SyncPlan
from mirrors.models import Drift, Flow, FlowPlan
from mirrors.services.clock import milliseconds
from mirrors.services.failover.target_topics import read_target_topics, target_topics
from tests.pages import world

BEFORE = "Access rules that allow WRITE are not carried: only the flow writes its topics (1: a)."
RULE = AclRule(name="east.a", principal="User:app", host="*", operation="READ", permission="ALLOW")


def new(topic: str) -> NewTopic:
    return NewTopic(
        topic=topic, remote_topic=f"east.{topic}", partitions=2, replication_factor=1, configs={}
    )


def growth(topic: str, count: int) -> Growth:
    return Growth(topic=topic, remote_topic=f"east.{topic}", partitions_now=1, partitions=count)


PLAN = SyncPlan(
    create=(new("a"), new("made")),
    grow=(growth("b", 4), growth("grown", 2)),
    configs=(
        ConfigChange(topic="b", remote_topic="east.b", key="retention.ms", before="1", after="2"),
    ),
    acls=(RULE,),
    take=(dataclasses.replace(RULE, name="east.z"),),
)


def there(name: str, partitions: int) -> TopicState:
    return TopicState(name=name, partitions=partitions, replication_factor=3)


@pytest.fixture
def flow(db: None) -> Flow:
    return world.busy()


def test_topics_created_since_the_last_check_are_not_reported(flow: Flow) -> None:
    now = timezone.now()
    FlowPlan.objects.update_or_create(
        flow=flow,
        defaults={
            "since": now,
            "as_of": now,
            "changes": [change.to_dict() for change in PLAN.changes()],
            "left_out": ["x is not copied: it is internal.", BEFORE],
        },
    )
    Drift.objects.filter(flow=flow).delete()
    for number, (kind, name, key, state) in enumerate(
        (
            ("deleted topic", "east.gone", "", "ignored"),
            ("deleted topic", "east.back", "", "open"),
            ("topic config", "east.b", "cleanup.policy", "accepted"),
        )
    ):
        Drift.objects.create(
            flow=flow, kind=kind, name=name, key=key, place=str(number), state=state,
            found="compact" if key else None, opened_at=now, seen_at=now,
        )  # fmt: skip
    rows = read_target_topics(flow)
    assert rows.topics == {
        "east.gone", "east.back", "east.a", "east.made", "east.b", "east.grown"
    }  # fmt: skip
    topics = [there("east.back", 2), there("east.made", 2), there("east.b", 1)]
    topics.append(there("east.grown", 2))
    seen = target_topics(rows, {topic.name: topic for topic in topics})
    assert seen.seen_at == milliseconds(now)
    assert (seen.missing, seen.too_few_partitions) == (("east.a",), (("east.b", 1, 4),))
    assert (seen.settings, seen.rules) == (("east.b: retention.ms",), ("east.a: User:app",))
    assert seen.left == (BEFORE,)
    assert seen.replicas["east.b"] == 3
    assert [(row.name, row.decided) for row in seen.drifted] == [
        ("east.gone", True), ("east.b", True)
    ]  # fmt: skip
    assert seen.drifted[0].sentence == "east.gone was deleted on the target."


def test_rules_that_stay_behind_are_known_by_their_code_whatever_the_words(flow: Flow) -> None:
    now = timezone.now()
    said = {"since": now, "as_of": now, "left_out": [BEFORE, "Other words."]}
    for codes, left in (
        ({"Other words.": WRITE_RULES}, "Other words."),
        ({}, None),
        (None, BEFORE),
    ):
        FlowPlan.objects.update_or_create(flow=flow, defaults={**said, "codes": codes})
        assert next(iter(target_topics(read_target_topics(flow), {}).left), None) == left


def test_of_a_flow_that_nobody_looked_at_nothing_is_known(flow: Flow) -> None:
    FlowPlan.objects.filter(flow=flow).delete()
    Drift.objects.filter(flow=flow).delete()
    seen = target_topics(read_target_topics(flow), {})
    assert (seen.seen_at, seen.missing, seen.drifted) == (None, (), ())

"""ACLs between two real brokers with an authorizer: MM2's rule, and all ACLs by choice."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from django.utils import timezone

from mirrors.domain.errors import KafkaRefused
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.sync.schedule import SyncTaskContext
from mirrors.domain.topics.acls import NOT_SEEN, AclRule
from mirrors.kafka.admin.acls import Acls
from mirrors.kafka.admin.groups import GroupOffset, write_offsets
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.models import CarriedAcl, Cluster, Drift, DutyRun, Flow, FlowPlan
from mirrors.services.clock import milliseconds
from mirrors.services.errors import Conflict
from mirrors.services.sync import scheduler
from mirrors.services.topics import acl_previews, configs, drift, plans
from mirrors.services.topics import acls as sync_acls
from tests.pages import world as rows
from tests.security.secured import LIMITED, SecuredBroker

pytestmark = pytest.mark.django_db

PRINCIPAL = "User:reader"
Pair = tuple[ClusterSpec, ClusterSpec]


@pytest.fixture
def topic() -> str:
    return f"rules-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def sides(acl_clusters: tuple[str, str], topic: str) -> Iterator[Pair]:
    """Both as the broker's own superuser; what a test grants is taken away after it."""
    one, two = (
        ClusterSpec(alias=alias, bootstrap_servers=address)
        for alias, address in zip(("one", "two"), acl_clusters, strict=True)
    )
    yield one, two
    for side in (one, two):
        with Acls(side) as acls:
            left = [row for row in acls.rules(groups_too=True) or [] if topic in row.name]
            acls.delete_rules(left).raise_first()
        with Admin(side) as admin:
            admin.delete_topics([name for name in admin.topic_names() if topic in name])


@pytest.fixture
def flow(sides: Pair, topic: str) -> Flow:
    pair = [Cluster.objects.create(**dataclasses.asdict(side)) for side in sides]
    keys = {"topics": f"{topic}.*", "groups": f"{topic}.*", "sync.topic.acls.enabled": "true"}
    return rows.flow(pair[0], pair[1], properties=keys)


def rule(name: str, operation: str, permission: str = "ALLOW", **more: str) -> AclRule:
    return AclRule(
        name=name,
        principal=PRINCIPAL,
        host="*",
        operation=operation,
        permission=permission,
        **more,
    )


def rules_of(spec: ClusterSpec, topic: str) -> list[AclRule]:
    with Acls(spec) as acls:
        return sorted(row for row in acls.rules(groups_too=True) or [] if topic in row.name)


def fields_of(rules: list[AclRule]) -> list[tuple[str, ...]]:
    return sorted(
        (row.resource, row.pattern, row.name, row.permission, row.operation) for row in rules
    )


def eventually(look: Callable[[], object]) -> None:
    until = time.monotonic() + 15
    while not look():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


def context(flow: Flow) -> SyncTaskContext:
    flow.refresh_from_db()
    now = milliseconds(timezone.now())
    return SyncTaskContext(flow_id=flow.pk, spec=flow.spec, now=now, deadline_s=20)


def grant(spec: ClusterSpec, topic: str, made: list[AclRule]) -> None:
    before = len(rules_of(spec, topic))
    with Acls(spec) as acls:
        acls.create_rules(made).raise_first()
    eventually(lambda: len(rules_of(spec, topic)) == before + len(made))


def take(spec: ClusterSpec, topic: str, gone: list[AclRule]) -> None:
    with Acls(spec) as acls:
        acls.delete_rules(gone).raise_first()
    eventually(lambda: not set(gone) & set(rules_of(spec, topic)))


def test_allow_all_becomes_read_write_is_not_carried_and_deny_is(
    flow: Flow, sides: Pair, topic: str
) -> None:
    made = [
        rule(topic, "ALL"),
        rule(topic, "WRITE"),
        rule(topic, "DESCRIBE"),
        rule(topic, "ALL", "DENY"),
        rule(topic, "READ", pattern="PREFIXED"),
        rule(f"other-{topic}", "READ"),
        rule(topic, "READ", resource="GROUP"),
    ]
    grant(sides[0], topic, made)
    outcome = sync_acls.sync_acls(context(flow))
    assert outcome.counts == {"made": 3, "taken": 0, "failed": 0}
    eventually(lambda: len(rules_of(sides[1], topic)) == 3)
    assert fields_of(rules_of(sides[1], topic)) == [
        ("TOPIC", "LITERAL", f"one.{topic}", "ALLOW", "DESCRIBE"),
        ("TOPIC", "LITERAL", f"one.{topic}", "ALLOW", "READ"),
        ("TOPIC", "LITERAL", f"one.{topic}", "DENY", "ALL"),
    ]
    assert any("WRITE" in reason for reason in outcome.reasons)
    assert any("prefixes" in reason for reason in outcome.reasons)
    assert sync_acls.sync_acls(context(flow)).counts["made"] == 0
    # MM2 never takes a rule away.
    take(sides[0], topic, [made[2]])
    assert sync_acls.sync_acls(context(flow)).counts["taken"] == 0
    assert len(rules_of(sides[1], topic)) == 3


def test_complete_rules_carry_prefixes_groups_and_deny_and_take_away_their_own_alone(
    flow: Flow, sides: Pair, topic: str
) -> None:
    with Admin(sides[0]) as admin:
        new = NewTopicSpec(name=f"{topic}-a", partitions=1, replication_factor=1)
        admin.create_topics([new]).raise_first()
        eventually(lambda: new.name in admin.topic_names())
    write_offsets(sides[0], f"{topic}-app", {(new.name, 0): GroupOffset(0)}).raise_first()
    flow.properties["sync.acls.scope"] = "complete"
    flow.save()
    there = rule(f"one.{topic}-a", "DESCRIBE")
    grant(sides[1], topic, [there])
    read = rule(topic, "ALL", pattern="PREFIXED")
    described = rule(f"{topic}-a", "DESCRIBE")
    grouped = rule(topic, "READ", resource="GROUP", pattern="PREFIXED")
    denied = rule(f"{topic}-app", "DELETE", "DENY", resource="GROUP")
    foreign = rule(f"x{topic}", "READ", resource="GROUP")
    grant(sides[0], topic, [read, described, grouped, denied, foreign])
    shown = {(row.kind, row.name) for row in configs.find_differences(context(flow)).changes()}
    assert ("topic acl", f"one.{topic}* (prefix): {PRINCIPAL}") in shown
    assert ("group acl", f"{topic}-app: {PRINCIPAL}") in shown
    outcome = sync_acls.sync_acls(context(flow))
    assert outcome.counts == {"made": 3, "taken": 0, "failed": 0}
    carried = dataclasses.replace(read, name=f"one.{topic}", operation="READ")
    eventually(lambda: len(rules_of(sides[1], topic)) == 4)
    assert rules_of(sides[1], topic) == sorted([there, carried, grouped, denied])
    assert CarriedAcl.objects.filter(flow=flow).count() == 3
    # Deleted on the source: ours go, the one that was there before us stays.
    take(sides[0], topic, [read, described, denied])
    taken = [row for row in configs.find_differences(context(flow)).changes() if "take" in row.kind]
    assert [row.kind for row in taken] == ["take group acl", "take topic acl"]
    assert sync_acls.sync_acls(context(flow)).counts == {"made": 0, "taken": 2, "failed": 0}
    eventually(lambda: len(rules_of(sides[1], topic)) == 2)
    assert rules_of(sides[1], topic) == sorted([there, grouped])
    assert sync_acls.sync_acls(context(flow)).counts == {"made": 0, "taken": 0, "failed": 0}


def test_the_duty_waits_until_somebody_has_seen_which_rules_it_would_make(
    flow: Flow, sides: Pair, topic: str
) -> None:
    grant(sides[0], topic, [rule(topic, "READ")])
    now = timezone.now()
    assert not scheduler.run_task(flow_id=flow.pk, name="topic acls", now=now)
    (standing,) = (
        row
        for row in scheduler.task_statuses(flow=flow, now=now)
        if row.schedule.name == "topic acls"
    )
    assert (standing.state, standing.judgement.reason) == ("waiting", NOT_SEEN)
    with pytest.raises(Conflict, match="no plan yet"):
        acl_previews.approve_acls(flow=flow, digest="", who="me", now=now)
    plans.request_plan(flow=flow, now=now)
    plans.plan_on_request(flow_id=flow.pk, now=now)
    plan = FlowPlan.objects.get(flow=flow)
    assert [row["kind"] for row in plan.changes] == ["topic acl"]
    with pytest.raises(Conflict, match="is outdated"):
        acl_previews.approve_acls(flow=flow, digest="other", who="me", now=now)
    assert rules_of(sides[1], topic) == []
    acl_previews.approve_acls(flow=flow, digest=plan.digest, who="me", now=now)
    assert scheduler.run_task(flow_id=flow.pk, name="topic acls", now=now)
    assert DutyRun.objects.get(flow=flow, duty="topic acls").counts["made"] == 1
    # Other rules than those that were looked at: it waits again, and says which setting changed.
    flow.properties["sync.acls.scope"] = "complete"
    flow.save()
    assert "sync.acls.scope changed" in acl_previews.why_flow_waits(Flow.objects.get(pk=flow.pk))


def test_a_rule_taken_away_by_hand_waits_for_a_decision_before_it_is_made_again(
    flow: Flow, sides: Pair, topic: str
) -> None:
    grant(sides[0], topic, [rule(topic, "READ"), rule(topic, "DESCRIBE")])
    assert sync_acls.sync_acls(context(flow)).counts["made"] == 2
    eventually(lambda: len(rules_of(sides[1], topic)) == 2)
    gone = rules_of(sides[1], topic)
    take(sides[1], topic, gone)
    outcome = sync_acls.sync_acls(context(flow))
    assert outcome.counts["made"] == 0
    assert sum("was deleted manually" in reason for reason in outcome.reasons) == 2
    first, second = Drift.objects.filter(flow=flow, kind="acl").order_by("key")
    now = timezone.now()
    drift.decide(finding=first, choice="accept", who="me", why="Not wanted.", now=now)
    drift.decide(finding=second, choice="fix", who="me", why="A slip.", now=now)
    drift.fix_drift(flow_id=flow.pk, now=now)
    eventually(lambda: len(rules_of(sides[1], topic)) == 1)
    assert [f"{row.summary}" for row in rules_of(sides[1], topic)] == [second.key]
    second.refresh_from_db()
    assert second.state == "fixed"
    assert sync_acls.sync_acls(context(flow)).counts["made"] == 0
    assert first.key not in str(configs.find_differences(context(flow)).changes())


def test_a_principal_that_may_not_read_rules_gets_a_plan_without_them(
    secured_pair: tuple[SecuredBroker, SecuredBroker], flow: Flow
) -> None:
    login = {"sasl_username": LIMITED, "sasl_password": "env:KAFKA_TEST_LIMITED"}
    for alias, side in zip(("one", "two"), secured_pair, strict=True):
        spec = side.spec("LOGIN", "PLAIN", alias=alias, **login)
        Cluster.objects.filter(alias=alias).update(**dataclasses.asdict(spec))
    limited = context(Flow.objects.get(pk=flow.pk))
    with pytest.raises(KafkaRefused, match="cannot read ACLs"):
        sync_acls.sync_acls(limited)
    left = configs.find_differences(limited).left_out
    assert any(text.startswith("ACLs are not part of this plan.") for text in left)

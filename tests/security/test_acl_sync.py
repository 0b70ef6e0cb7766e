"""Access rules between two real brokers that keep them: MM2's rule, and nothing taken away."""

from __future__ import annotations

import time
import uuid

import pytest

from mirrors.domain.acls import AclRule
from mirrors.domain.duties import DutyContext
from mirrors.domain.errors import KafkaRefused
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.kafka.acls import Acls
from mirrors.services import sync_topics
from tests.security.secured import LIMITED, SecuredBroker

PRINCIPAL = "User:reader"
Pair = tuple[ClusterSpec, ClusterSpec]


@pytest.fixture
def sides(secured_pair: tuple[SecuredBroker, SecuredBroker]) -> Pair:
    """Both as the broker's own superuser."""
    specs = [
        ClusterSpec(alias=alias, bootstrap_servers=side.broker.bootstrap)
        for alias, side in zip(("one", "two"), secured_pair, strict=True)
    ]
    return specs[0], specs[1]


@pytest.fixture
def topic() -> str:
    return f"rules-{uuid.uuid4().hex[:8]}"


def rule(topic: str, operation: str, permission: str = "ALLOW", **more: str) -> AclRule:
    return AclRule(
        topic=topic,
        principal=PRINCIPAL,
        host="*",
        operation=operation,
        permission=permission,
        **more,
    )


def rules_of(spec: ClusterSpec, topic: str) -> list[tuple[str, str]]:
    with Acls(spec) as acls:
        found = [rule for rule in acls.topic_rules() or [] if rule.topic == topic]
    return sorted((rule.permission, rule.operation) for rule in found)


def context(sides: Pair, topic: str) -> DutyContext:
    spec = FlowSpec.build(source=sides[0], target=sides[1], properties={"topics": topic})
    return DutyContext(flow_id=1, spec=spec, now=0, deadline_s=20)


def grant(sides: Pair, topic: str) -> None:
    with Acls(sides[0]) as acls:
        made = [
            rule(topic, "ALL"),
            rule(topic, "WRITE"),
            rule(topic, "DESCRIBE"),
            rule(topic, "ALL", "DENY"),
            rule(topic, "READ", pattern="PREFIXED"),
            rule(f"other-{topic}", "READ"),
        ]
        acls.create_rules(made).raise_first()
        until = time.monotonic() + 10
        while len([row for row in acls.topic_rules() or [] if topic in row.topic]) < len(made):
            assert time.monotonic() < until, "the rules are not there"
            time.sleep(0.05)


def test_allow_all_becomes_read_write_is_not_carried_and_deny_is(sides: Pair, topic: str) -> None:
    grant(sides, topic)
    outcome = sync_topics.sync_acls(context(sides, topic))
    assert outcome.counts == {"made": 3, "failed": 0}
    until = time.monotonic() + 10
    while len(rules_of(sides[1], f"one.{topic}")) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    assert rules_of(sides[1], f"one.{topic}") == [
        ("ALLOW", "DESCRIBE"), ("ALLOW", "READ"), ("DENY", "ALL"),
    ]  # fmt: skip
    assert any("WRITE" in reason for reason in outcome.reasons)
    assert any("prefixes" in reason for reason in outcome.reasons)
    assert sync_topics.sync_acls(context(sides, topic)).counts["made"] == 0


def test_a_principal_that_may_not_read_rules_gets_a_plan_without_them(
    secured_pair: tuple[SecuredBroker, SecuredBroker], topic: str
) -> None:
    login = {"sasl_username": LIMITED, "sasl_password": "env:KAFKA_TEST_LIMITED"}
    pair = [
        side.spec("LOGIN", "PLAIN", alias=alias, **login)
        for alias, side in zip(("one", "two"), secured_pair, strict=True)
    ]
    limited = context((pair[0], pair[1]), topic)
    with pytest.raises(KafkaRefused, match="cannot read access rules"):
        sync_topics.sync_acls(limited)
    left = sync_topics.look(limited).left_out
    assert any(text.startswith("Access rules are not part of this plan.") for text in left)

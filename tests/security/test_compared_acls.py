"""A comparison of two brokers with an authorizer lists the ACLs that the target lacks."""

from __future__ import annotations

import dataclasses
import time
import uuid

import pytest

from mirrors.domain.specs import ClusterSpec
from mirrors.domain.topics.acls import AclRule
from mirrors.kafka.admin.acls import Acls
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.models import Cluster
from mirrors.services.comparison import lifecycle as comparisons
from mirrors.services.comparison.worker import advance_comparison
from tests.pages import world as rows
from tests.security.secured import SecuredBroker

pytestmark = pytest.mark.django_db


def test_a_rule_that_the_target_lacks_is_found(
    secured_pair: tuple[SecuredBroker, SecuredBroker],
) -> None:
    one, two = (
        ClusterSpec(alias=f"{alias}{uuid.uuid4().hex[:6]}", bootstrap_servers=side.broker.bootstrap)
        for alias, side in zip(("one", "two"), secured_pair, strict=True)
    )
    topic = f"compared-{uuid.uuid4().hex[:8]}"
    remote = f"{one.alias}.{topic}"
    rules = [
        AclRule(name=topic, principal=f"User:{who}", host="*", operation="READ", permission="ALLOW")
        for who in ("ann", "bob")
    ]
    for side, name in ((one, topic), (two, remote)):
        with Admin(side) as admin:
            new = NewTopicSpec(name=name, partitions=1, replication_factor=1, configs={})
            admin.create_topics([new]).raise_first()
    there = dataclasses.replace(rules[0], name=remote)
    keep(one, rules)
    keep(two, [there])
    clusters = [Cluster.objects.create(**dataclasses.asdict(side)) for side in (one, two)]
    keys = {"topics": topic, "sync.topic.acls.enabled": "true"}
    flow = rows.flow(clusters[0], clusters[1], properties=keys)
    try:
        run = comparisons.request_comparison(flow=flow, who="tester", content=False, topics=[topic])
        assert not advance_comparison(comparison_id=run.pk)
        run.refresh_from_db()
        (finding,) = run.findings.filter(about="acl")
        assert (finding.kind, finding.weight) == ("missing", "differs")
        assert "bob" in finding.name
        assert run.summary is not None
        (aspect,) = (row for row in run.summary["aspects"] if row["about"] == "acl")
        assert (aspect["compared"], aspect["differs"]) == (2, 1)
        assert "1 ACL is missing" in run.reason
    finally:
        for side, name, made in ((one, topic, rules), (two, remote, [there])):
            with Acls(side) as acls:
                acls.delete_rules(made)
            with Admin(side) as admin:
                admin.delete_topics([name])


def keep(side: ClusterSpec, rules: list[AclRule]) -> None:
    """Make them, and wait until the broker itself lists them."""
    with Acls(side) as acls:
        acls.create_rules(rules).raise_first()
        until = time.monotonic() + 15
        while not set(rules) <= set(acls.rules() or []):
            assert time.monotonic() < until, "the rules did not come"
            time.sleep(0.05)

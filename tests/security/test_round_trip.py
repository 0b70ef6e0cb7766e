"""Replication, failover and failback on brokers that grant a flow only the documented ACLs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclBinding, ResourceType

from mirrors.kafka.admin.permissions import describe_permissions
from mirrors.models import FailoverRun
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.security.secured import SecuredBroker
from tests.security.test_authorization import rule_filter
from tests.security.test_least_privilege import limited, rules_of_the_page
from tests.spark.failback_stage import FailbackFlows
from tests.spark.lab import Lab
from tests.spark.round_trip import IDENTITY, there_and_back_again

pytestmark = pytest.mark.django_db(transaction=True)
Pair = tuple[SecuredBroker, SecuredBroker]


def renamed(rule: AclBinding, way: FailbackFlows, source: str, target: str) -> AclBinding:
    """The page's flow is primary->backup under the default policy, its topics begin with orders."""
    name = rule.name
    if rule.restype == ResourceType.TOPIC and name in ("orders", "primary."):
        name = f"{way.name}."
    else:
        for side, alias in (("primary", source), ("backup", target)):
            name = name.replace(side, way.clusters[alias].alias)
    return AclBinding(
        rule.restype,
        name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )


@pytest.fixture
def way(secured_lab: Lab, secured_pair: Pair) -> Iterator[FailbackFlows]:
    """Both flows connect as the principal that may do nothing else anywhere."""
    one, two = secured_pair
    specs = {"a": lambda alias: limited(one, alias), "b": lambda alias: limited(two, alias)}
    way = FailbackFlows(secured_lab, specs=specs, **IDENTITY)
    admins = {"a": secured_lab.on_source, "b": secured_lab.on_target}
    rules = {
        # Some are the same for both directions.
        here: list(
            dict.fromkeys(
                renamed(rule, way, *names)
                for page, names in (("SOURCE", (here, there)), ("TARGET", (there, here)))
                for rule in rules_of_the_page(page)
            )
        )
        for here, there in ("ab", "ba")
    }
    for side, made in rules.items():
        for future in admins[side].create_acls(made).values():
            future.result(20)
        wait_for_rights(way, side)
    yield way
    way.close()
    for side, made in rules.items():
        for future in admins[side].delete_acls([rule_filter(rule) for rule in made]).values():
            future.result(20)


def wait_for_rights(way: FailbackFlows, side: str) -> None:
    """The controller answers before the broker's authorizer has heard of it."""
    until, topic = time.monotonic() + 30, f"{way.name}.orders"
    while True:
        may = describe_permissions(way.clusters[side].spec, topics=[topic], groups=["any"])
        if "READ" in may.topics[topic] and "READ" in may.groups["any"]:
            return
        assert time.monotonic() < until, may
        time.sleep(0.1)


def test_the_rights_of_the_page_are_enough_for_the_whole_way_round_with_the_same_names(
    way: FailbackFlows,
    receiver: Receiver,  # noqa: F811
) -> None:
    there_and_back_again(way, receiver)
    (switched,) = FailoverRun.objects.filter(kind="switchover")
    assert switched.plan is not None
    assert [row for row in switched.plan["warnings"] if row["code"] == "rights"] == []

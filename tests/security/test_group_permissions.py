"""Consumer groups need what docs/operations/access/permissions.md grants; a gap is named."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from mirrors.models import Cluster
from mirrors.services.groups.mm2_checkpoints import emit_checkpoints
from mirrors.services.groups.mm2_offset_syncs import write_offset_syncs
from mirrors.services.groups.survey import discover_groups
from mirrors.services.groups.target_offsets import move_groups
from tests.groups.world import World
from tests.security.secured import SecuredBroker
from tests.security.test_authorization import rule_filter
from tests.security.test_least_privilege import limited, rules_of_the_page
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(secured_pair: tuple[SecuredBroker, SecuredBroker], db: None) -> Iterator[World]:
    """A flow whose duties are done by a principal that may do what the page says, no more."""
    sides = [
        Side(alias, broker.broker.bootstrap)
        for alias, broker in zip(("one", "two"), secured_pair, strict=True)
    ]
    here = World.make(*sides, groups=unique("app") + ".*", sync_group_offsets_enabled="true")
    for alias, broker in zip((here.alias, "two"), secured_pair, strict=True):
        fields = dataclasses.asdict(limited(broker, alias))
        Cluster.objects.filter(alias=alias).update(**fields)
    made = []
    for broker, side in zip(secured_pair, ("SOURCE", "TARGET"), strict=True):
        rules = [renamed(rule, here.alias) for rule in rules_of_the_page(side)]
        made.append((AdminClient({"bootstrap.servers": broker.broker.bootstrap}), rules))
        for future in made[-1][0].create_acls(rules).values():
            future.result(20)
    yield here
    for admin, rules in made:
        for future in admin.delete_acls([rule_filter(rule) for rule in rules]).values():
            future.result(20)
    for one in sides:
        one.close()


def renamed(rule: AclBinding, alias: str) -> AclBinding:
    """The page's flow is primary->backup."""
    name = rule.name.replace("primary", alias).replace("backup", "two")
    return AclBinding(
        rule.restype,
        name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )


def test_the_rights_of_the_page_are_enough_and_one_forbidden_topic_harms_no_other(
    world: World, secured_pair: tuple[SecuredBroker, SecuredBroker]
) -> None:
    group = world.flow.properties["groups"].removesuffix(".*")
    kept, forbidden = world.topic("orders"), world.topic("orders")
    for topic in (kept, forbidden):
        world.fill(topic, 20)
        world.commit(group, topic, 10)
    world.copy.copy()
    world.do(discover_groups)
    assert world.do(emit_checkpoints).counts["emitted"] == 2
    assert world.do(move_groups).counts["moved"] == 2
    assert world.do(write_offset_syncs).counts["syncs"] == 4
    granted = next(
        rule for rule in rules_of_the_page("TARGET") if rule.restype == ResourceType.TOPIC
    )
    rule = AclBinding(
        ResourceType.TOPIC,
        world.remote(forbidden),
        ResourcePatternType.LITERAL,
        granted.principal,
        granted.host,
        AclOperation.READ,
        AclPermissionType.DENY,
    )
    admin = AdminClient({"bootstrap.servers": secured_pair[1].broker.bootstrap})
    for future in admin.create_acls([rule]).values():
        future.result(20)
    # The controller answers before the broker's authorizer has heard of it.
    time.sleep(1)
    for topic in (kept, forbidden):
        world.commit(group, topic, 15)
    outcome = world.do(move_groups)
    assert outcome.counts["moved"] == 1
    for future in admin.delete_acls([rule_filter(rule)]).values():
        future.result(20)
    rows = {row.topic: row for row in world.rows(group=group)}
    assert rows[kept].sync_state == "moved"
    assert rows[forbidden].sync_state == "failed"
    assert "authorized" in rows[forbidden].reason
    assert forbidden in rows[forbidden].reason

"""The permissions that a flow's page names are sufficient, and each of them is necessary."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.permissions.required import Permission, required_permissions
from mirrors.domain.specs import FlowSpec
from mirrors.domain.standby.records import backup_topic
from mirrors.models import Cluster
from mirrors.services.groups.mm2_checkpoints import emit_checkpoints
from mirrors.services.groups.mm2_offset_syncs import write_offset_syncs
from mirrors.services.groups.survey import discover_groups
from mirrors.services.groups.target_offsets import move_groups
from mirrors.services.permissions import permissions_of
from mirrors.services.standby.backup import back_up_flow
from tests.groups.world import World
from tests.security.secured import LIMITED, SecuredBroker
from tests.security.test_authorization import rule_filter
from tests.security.test_least_privilege import OPERATIONS, limited
from tests.spark.lab import Lab
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}
Rule = tuple[str, AclBinding]


def rules_of(permissions: Iterable[Permission]) -> list[Rule]:
    """Each operation by itself, with its side."""
    return [
        (
            row.side,
            AclBinding(
                KINDS[row.resource],
                row.name,
                ResourcePatternType[row.pattern.upper()],
                f"User:{LIMITED}",
                "*",
                OPERATIONS[operation],
                AclPermissionType.ALLOW,
            ),
        )
        for row in permissions
        for operation in row.operations
    ]


class Granted:
    """What the limited principal may do on both brokers."""

    def __init__(self, pair: tuple[SecuredBroker, SecuredBroker]) -> None:
        self._admins = {
            side: AdminClient({"bootstrap.servers": broker.broker.bootstrap})
            for side, broker in zip(("source", "target"), pair, strict=True)
        }

    def grant(self, rules: Iterable[Rule]) -> None:
        for side, rule in rules:
            for future in self._admins[side].create_acls([rule]).values():
                future.result(20)

    def take(self, rules: Iterable[Rule]) -> None:
        for side, rule in rules:
            for future in self._admins[side].delete_acls([rule_filter(rule)]).values():
                future.result(20)

    def delete_topics(self, names: dict[str, list[str]]) -> None:
        for side, topics in names.items():
            for future in self._admins[side].delete_topics(topics).values():
                with contextlib.suppress(Exception):
                    future.result(20)


@pytest.fixture
def granted(secured_pair: tuple[SecuredBroker, SecuredBroker]) -> Granted:
    return Granted(secured_pair)


def test_a_flow_copies_with_exactly_these_permissions(
    secured_lab: Lab, secured_pair: tuple[SecuredBroker, SecuredBroker], granted: Granted
) -> None:
    """Creates remote topics, copies, grows them, keeps positions."""
    source, target = secured_pair
    topic = unique("granted")
    flow = secured_lab.flow(topics=f"{topic}.*")
    specs = {"source": limited(source, "primary"), "target": limited(target, "backup")}
    flow.job = dataclasses.replace(flow.job, name="primary->backup", **specs)
    spec = FlowSpec(**specs, properties=flow.job.properties)
    rules = rules_of(required_permissions(spec))
    granted.grant(rules)
    try:
        secured_lab.create(topic, partitions=1)
        secured_lab.write(topic, range(5))
        flow.start()
        flow.wait_in_sync(topic, seconds=90)
        secured_lab.grow(topic, 2)
        secured_lab.write(topic, ["later"], partition=1)
        flow.wait_in_sync(topic, seconds=90)
    finally:
        flow.stop()
        granted.take(rules)


@pytest.fixture
def world(secured_pair: tuple[SecuredBroker, SecuredBroker], db: None) -> Iterator[World]:
    sides = [
        Side(alias, broker.broker.bootstrap)
        for alias, broker in zip(("one", "two"), secured_pair, strict=True)
    ]
    here = World.make(*sides, groups=unique("app") + ".*", sync_group_offsets_enabled="true")
    for alias, broker in zip((here.alias, "two"), secured_pair, strict=True):
        fields = dataclasses.asdict(limited(broker, alias))
        Cluster.objects.filter(alias=alias).update(**fields)
    yield here
    for one in sides:
        one.close()


def undone(world: World, group: str, topic: str, offset: int) -> list[str]:
    """What the sync tasks of groups, offset syncs and the standby could not do."""
    world.commit(group, topic, offset)
    expected = {
        discover_groups: ("groups", 1),
        emit_checkpoints: ("emitted", 1),
        move_groups: ("moved", 1),
        write_offset_syncs: ("syncs", 1),
        back_up_flow: ("written", 1),
    }
    found = []
    for act, (name, least) in expected.items():
        try:
            outcome = world.do(act)
        except UnderstudyError as error:
            found.append(f"{act.__name__}: {error.message}")
            continue
        if act is not discover_groups and outcome.counts.get(name, 0) < least:
            found.append(f"{act.__name__}: {outcome}")
    # The next checkpoint is written after those that are there were read.
    world.commit(group, topic, offset + 3)
    try:
        world.do(discover_groups)
        if world.do(emit_checkpoints).counts["emitted"] != 1:
            found.append("no second checkpoint")
    except UnderstudyError as error:
        found.append(error.message)
    return found


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_without_any_one_of_them_a_feature_stays_undone(world: World, granted: Granted) -> None:
    group = world.flow.properties["groups"].removesuffix(".*")
    topic = world.topic("orders")
    world.fill(topic, 100)
    world.copy.copy()
    world.flow.refresh_from_db()
    features = ("offset syncs", "consumer groups", "checkpoints", "definition")
    every = permissions_of(flow=world.flow)
    rules = rules_of(every)
    tested = rules_of(row for row in every if any(word in row.why for word in features))
    assert len(tested) >= 8
    internal = {
        "source": [f"mm2-offset-syncs.{world.copy.target.spec.alias}.internal"],
        "target": [f"{world.alias}.checkpoints.internal", backup_topic(world.alias)],
    }
    granted.grant(rules)
    needless = []
    try:
        # With all of them before and after, or nothing were shown.
        for number, rule in enumerate([None, *tested[:5], None, *tested[5:], None]):
            # Each attempt begins without the internal topics, with new records and offsets.
            granted.delete_topics(internal)
            world.fill(topic, 20)
            world.copy.copy()
            if rule is not None:
                granted.take([rule])
            time.sleep(1)
            problems = undone(world, group, topic, 105 + 20 * number)
            if rule is None:
                assert problems == [], "these permissions are not sufficient"
            elif not problems:
                needless.append(rule)
            if rule is not None:
                granted.grant([rule])
    finally:
        granted.take(rules)
    assert needless == []

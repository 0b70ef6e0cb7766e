"""A simulation under a principal that may only read, and create and delete temporary groups."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from django.utils import timezone
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.runbook.plan_drift import remaining_blockers
from mirrors.kafka.admin.groups import GroupOffset, list_groups, write_offsets
from mirrors.kafka.admin.temporary_groups import PREFIX
from mirrors.kafka.admin.topics import Admin
from mirrors.models import Cluster, FailoverRun, Flow
from mirrors.services.failover import left_behind
from mirrors.services.failover.simulation import simulator
from tests.groups.world import World
from tests.security.secured import LIMITED, SecuredBroker
from tests.security.test_authorization import rule_filter
from tests.security.test_least_privilege import limited
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db
Pair = tuple[SecuredBroker, SecuredBroker]
LOGGER = "kafka.authorizer.logger"
NAMED = re.compile(
    rf"Principal = User:{LIMITED} is (\w+) operation = (\w+) from host = \S+ on resource = "
    r"(\w+):\w+:(\S+) for request = (\w+)"
)
READING = {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}


@pytest.fixture
def world(secured_pair: Pair) -> Iterator[World]:
    """Copied by somebody else; the control plane's principal may only read."""
    sides = [
        Side(alias, broker.broker.bootstrap)
        for alias, broker in zip(("one", unique("two")), secured_pair, strict=True)
    ]
    here = World.make(*sides, groups=unique("app") + ".*")
    aliases = (here.alias, sides[1].spec.alias)
    for alias, broker in zip(aliases, secured_pair, strict=True):
        fields = dataclasses.asdict(limited(broker, alias))
        Cluster.objects.filter(alias=alias).update(**fields)
    yield here
    for side in sides:
        side.close()


@pytest.fixture
def rights(world: World, secured_pair: Pair) -> Iterator[None]:
    """What docs/operations/flows/simulation.md says of a simulation."""
    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    read, delete, describe = AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE
    of_source = [(topic, "", read), (group, "*", describe)]
    names = (f"{world.alias}.", world.copy.positions_topic, world.copy.runs_topic)
    of_target = [(topic, name, read) for name in names]
    of_target += [(group, PREFIX, read), (group, PREFIX, delete)]
    of_source[0] = (topic, "judged", read)
    made = []
    for broker, wanted in zip(secured_pair, (of_source, of_target), strict=True):
        rules = [_rule(*row) for row in wanted]
        admin = AdminClient({"bootstrap.servers": broker.broker.bootstrap, "log_level": 0})
        for future in admin.create_acls(rules).values():
            future.result(20)
        made.append((admin, rules))
    yield
    for admin, rules in made:
        for future in admin.delete_acls([rule_filter(rule) for rule in rules]).values():
            future.result(20)


def _rule(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    pattern = ResourcePatternType.LITERAL if name == "*" else ResourcePatternType.PREFIXED
    return AclBinding(
        kind, name, pattern, f"User:{LIMITED}", "*", operation, AclPermissionType.ALLOW
    )


@pytest.fixture
def watched(secured_pair: Pair) -> Iterator[None]:
    """Both brokers log what they allow, too."""
    _log_level(secured_pair, "DEBUG")
    yield
    _log_level(secured_pair, "INFO")


def _log_level(pair: Pair, level: str) -> None:
    for broker in pair:
        admin = KafkaAdminClient(bootstrap_servers=broker.broker.bootstrap)
        admin.alter_configs(
            [ConfigResource(ConfigResourceType.BROKER_LOGGER, "1", {LOGGER: level})],
            raise_on_unknown=False,
        )
        admin.close()


def told(broker: SecuredBroker) -> set[str]:
    """Lines of the authorizer about the limited principal."""
    log = broker.broker.log
    texts = [path.read_text(errors="replace") for path in _logs(log) if path.exists()]
    return {line for text in texts for line in text.splitlines() if NAMED.search(line)}


def _logs(log: Path) -> tuple[Path, Path]:
    return log, log.with_name(f"{log.name}.1")


def wait_for_rights(world: World, flow: Flow, topic: str) -> None:
    """The controller answers before the broker's authorizer has heard of it."""
    until = time.monotonic() + 30
    places = ((flow.source.spec, topic), (flow.target.spec, world.remote(topic)))
    while True:
        try:
            for spec, name in places:
                with Admin(spec) as admin:
                    admin.list_offsets([(name, 0)], "latest").raise_first()
        except UnderstudyError:
            assert time.monotonic() < until
            time.sleep(0.1)
        else:
            return


def the_plan_names_what_a_real_run_lacks(
    plan: dict[str, Any], flow: Flow, group: str, remote: str
) -> None:
    """It may simulate, so nothing of that is missing; the rest is reported before anybody
    begins."""
    source, target = flow.source.alias, flow.target.alias
    rights = {row["where"]: row for row in plan["blockers"] if row["code"] == "rights"}
    divergence_topic = f"mm2-divergence.{source}.internal on {target}"
    lacking = {f"{group} on {target}", f"{remote} on {target}", divergence_topic}
    assert rights.keys() == lacking
    assert "cannot be set. Grant Read on it." in rights[f"{group} on {target}"]["sentence"]
    assert {row["page"] for row in rights.values()} == {"target"}
    assert remaining_blockers("switchover", plan)
    told = {row["code"]: row for row in plan["warnings"]}
    assert f"ACLs cannot fence {source}" in told["fence"]["sentence"]
    assert "rights_unknown" not in told


def test_reading_and_its_own_groups_are_all_that_a_simulation_does(
    world: World, rights: None, watched: None, secured_pair: Pair
) -> None:
    topic = world.topic("judged")
    world.fill(topic, 60)
    world.copy.copy()
    world.fill(topic, 20)
    group = world.flow.properties["groups"].removesuffix(".*")
    write_offsets(world.copy.source.spec, group, {(topic, 0): GroupOffset(40)}).raise_first()
    flow = Flow.objects.select_related("source", "target").get(pk=world.flow.pk)
    wait_for_rights(world, flow, topic)
    before = [told(broker) for broker in secured_pair]

    run = simulator.request_simulation(flow=flow, who="tester")
    assert simulator.run_simulation(run_id=run.pk)

    run.refresh_from_db()
    assert run.state == "succeeded", run.reason
    (row,) = run.result["partitions"]
    assert (row["group"], row["verdict"], row["re_reads"]) == (group, "proven", 0)
    assert (row["loss"], row["loss_is"]) == (20, "counted")
    assert not [name for name in list_groups(world.copy.target.spec) if name.startswith(PREFIX)]
    the_plan_names_what_a_real_run_lacks(run.plan, flow, group, world.remote(topic))
    requests: set[str] = set()
    for broker, known in zip(secured_pair, before, strict=True):
        for line in told(broker) - known:
            verdict, operation, kind, name, request = NAMED.search(line).groups()  # type: ignore[union-attr]
            requests.add(request)
            own = kind.upper() == "GROUP" and name.startswith(PREFIX)
            # A denied one is none, but it would be a try.
            assert operation in READING or (operation == "DELETE" and own), line
            if kind.upper() == "GROUP" and verdict == "Allowed" and operation == "READ":
                assert own, line
    changing = {name for name in requests if not name.startswith(("Describe", "List", "Find"))}
    assert changing - {"Fetch", "Metadata", "OffsetFetch"} == {"OffsetCommit", "DeleteGroups"}


def test_a_topic_that_can_no_longer_be_described_is_a_blocker_that_only_a_decision_passes(
    world: World, rights: None, secured_pair: Pair
) -> None:
    topic, hidden = world.topic("judged"), world.topic("judged.hidden")
    world.set(topics=f"{topic},{hidden}")
    for name in (topic, hidden):
        world.fill(name, 60)
    world.copy.copy()
    group = world.flow.properties["groups"].removesuffix(".*")
    partitions = {(topic, 0): GroupOffset(40), (hidden, 0): GroupOffset(10)}
    write_offsets(world.copy.source.spec, group, partitions).raise_first()
    flow = Flow.objects.select_related("source", "target").get(pk=world.flow.pk)
    wait_for_rights(world, flow, topic)
    admin = AdminClient({"bootstrap.servers": secured_pair[0].broker.bootstrap, "log_level": 0})
    deny = AclBinding(
        ResourceType.TOPIC,
        hidden,
        ResourcePatternType.LITERAL,
        f"User:{LIMITED}",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.DENY,
    )
    for future in admin.create_acls([deny]).values():
        future.result(20)
    try:
        run = _until_not_described(flow, hidden)
        named = {(row["code"], row["topic"]) for row in run.plan["blockers"] if row["topic"]}
        # It may simulate, not copy what a switchover would wait for.
        assert named == {("not_described", hidden), ("rights", topic)}
        assert {row["topic"] for row in run.result["partitions"]} == {topic}
        assert run.result["partitions"][0]["verdict"] == "proven"
        how = {"reason": "not ours", "who": "ann", "now": timezone.now()}
        left_behind.decide(flow=flow, topic=hidden, partition=None, **how)
        run = _simulated(flow)
        assert {row["topic"] for row in run.plan["blockers"]} <= {"", topic}
        assert f"{hidden} (1 partition) is left behind" in run.reason
    finally:
        for future in admin.delete_acls([rule_filter(deny)]).values():
            future.result(20)


def _until_not_described(flow: Flow, topic: str) -> FailoverRun:
    """The controller answers before the broker's authorizer has heard of it."""
    until = time.monotonic() + 30
    while True:
        run = _simulated(flow)
        if topic not in {row["topic"] for row in run.plan["partitions"]}:
            return run
        assert time.monotonic() < until
        time.sleep(0.2)


def _simulated(flow: Flow) -> FailoverRun:
    run = simulator.request_simulation(flow=flow, who="tester")
    assert simulator.run_simulation(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "succeeded", run.reason
    return run

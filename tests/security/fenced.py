"""A switchover step by step, and the ACLs on a topic after each step."""

from __future__ import annotations

import time

from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from mirrors.models import FailoverRun, Flow
from mirrors.services.failover.runbook import commands
from mirrors.services.failover.simulation import simulator as simulation
from tests.groups.world import World


def rules_of(world: World, topic: str) -> set[tuple[str, str, str]]:
    """As Kafka's own client sees them."""
    admin = AdminClient({"bootstrap.servers": world.copy.source.spec.bootstrap_servers})
    mine = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    found = admin.describe_acls(mine).result(20)
    return {(rule.principal, rule.operation.name, rule.permission_type.name) for rule in found}


def wait_for_rules(world: World, topic: str, wanted: set[tuple[str, str, str]]) -> None:
    """The answer comes before the broker has heard of it."""
    until = time.monotonic() + 20
    while (found := rules_of(world, topic)) != wanted:
        assert time.monotonic() < until, found
        time.sleep(0.05)


def simulated(world: World) -> FailoverRun:
    run = simulation.request_simulation(flow=world.flow, who="tester")
    assert simulation.run_simulation(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "succeeded", run.reason
    return run


def begin(world: World, kind: str, simulation: FailoverRun) -> FailoverRun:
    world.flow.refresh_from_db()
    return commands.request_execution(
        flow=world.flow,
        kind=kind,  # type: ignore[arg-type]
        simulation=simulation.pk,
        confirm_alias=world.copy.target.spec.alias,
        why="maintenance",
        who="tester",
    )


def copy_if_asked(world: World) -> None:
    if Flow.objects.filter(pk=world.flow.pk, desired_state="running").exists():
        world.copy.copy()

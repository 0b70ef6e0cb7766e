"""A topic recreated with fewer partitions: the missing ones are left out everywhere."""

from __future__ import annotations

import pytest

from mirrors.domain.internal_topics.records import position_key
from mirrors.kafka.internal_topics.topic import NewRecord, append
from mirrors.models import Failback
from mirrors.services.failback import lifecycle, preparation
from tests.groups.world import World
from tests.mirrors.simulated_flow import simulate
from tests.mirrors.switchover import NO_HOOKS, carry_out, group_of
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(sides: tuple[Side, Side]) -> World:
    here = World.make(*sides, groups=unique("app") + ".*")
    here.flow.properties |= NO_HOOKS
    here.flow.save()
    return here


def recreated(world: World) -> str:
    """Six partitions were copied; now there are two, on both sides, and they are copied again."""
    topic = world.topic("orders", 6)
    for number in range(6):
        world.fill(topic, 20, partition=number)
    world.copy.copy()
    before = [row for row in world.copy.rows if row.topic != topic]
    world.delete(world.copy.source, topic)
    world.delete(world.copy.target, world.remote(topic))
    world.copy.source.make(topic, 2)
    world.copy.rows = before
    world.copy.add(topic)
    for number in range(2):
        world.fill(topic, 10, partition=number)
    # As a restart does by decision: these begin again, the other four positions stay.
    forgotten = [NewRecord(position_key(topic, number), None, 0) for number in range(2)]
    append(world.copy.target.spec, world.copy.positions_topic, forgotten, deadline_s=10)
    world.copy.copy()
    return topic


def test_a_switchover_and_a_failback_go_through(world: World) -> None:
    other = world.topic("payments")
    world.fill(other, 30)
    topic = recreated(world)
    world.copy.copy()
    group = group_of(world)
    world.commit(group, topic, 4)
    world.commit(group, other, 10)

    simulated = simulate(world.flow)

    assert simulated.state == "succeeded", simulated.reason
    assert simulated.plan["blockers"] == []
    assert simulated.verification == "verified", simulated.verification_reason
    parts = {(row["topic"], row["partition"]) for row in simulated.plan["partitions"]}
    assert parts == {(topic, 0), (topic, 1), (other, 0)}
    assert (simulated.plan["loss"], simulated.plan["pending"]) == (0, 0)
    reads = {(group, topic): 10, (group, other): 30}
    run = carry_out(world, simulated, "switchover", reads)
    assert run.state == "succeeded", run.reason
    assert {row["state"] for row in run.result["partitions"]} == {"moved"}

    back = lifecycle.request_failback(flow=world.flow, who="ann")
    preparation.prepare_failback(run_id=back.pk)
    back = Failback.objects.get(pk=back.pk)
    assert back.state != "failed", back.reason

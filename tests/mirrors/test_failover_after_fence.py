"""Failover runs on real clusters: nothing that a simulation finds stops them after the fence."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from mirrors.domain.failover.runbook import group_progress
from mirrors.domain.internal_topics.records import Position
from mirrors.kafka.connection.client_config import client_config
from mirrors.models import FailoverRun
from mirrors.services.failback.positions import write_positions
from mirrors.services.failover.runbook.worker import advance
from mirrors.services.offsets.divergence_points import points_of
from tests.groups.world import World
from tests.mirrors.switchover import OPEN, begin, copied, group_of, hooked_world, simulated
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(primary: str, backup: str, receiver: Receiver) -> Iterator[World]:  # noqa: F811
    yield from hooked_world(primary, backup, receiver.url)


@contextlib.contextmanager
def reader(world: World, group: str, topic: str) -> Iterator[Consumer]:
    """A member of the group on the source that commits nothing."""
    own = {"group.id": group, "enable.auto.commit": False}
    spec = world.copy.source.spec
    consumer = Consumer(client_config(spec, client_id="test", role="consumer", extra=own))
    with contextlib.closing(consumer):
        consumer.subscribe([topic])
        until = time.monotonic() + 20
        while not consumer.assignment():
            assert time.monotonic() < until
            consumer.poll(0.05)
        yield consumer


def restart(world: World, topic: str) -> None:
    """As a person's decision does: the new partitions are copied from their first record on."""
    ids = world.copy.source.client.cluster_id, world.copy.target.client.cluster_id
    rows = [
        Position(
            topic=row.topic,
            partition=row.partition,
            position=0,
            source_cluster=ids[0],
            source_topic_id=row.topic_id,
            target_cluster=ids[1],
            target_topic_id=row.remote_topic_id,
            resets=1,
        )
        for row in world.copy.rows
        if row.topic == topic
    ]
    write_positions(world.flow.spec, rows)


def go_on(run: FailoverRun, *, until_step: str = "", seconds: float = 60) -> FailoverRun:
    """Turn by turn to the end, or until a step has been looked at once."""
    limit = time.monotonic() + seconds
    while run.state in OPEN:
        assert time.monotonic() < limit, run.steps.filter(state="running").values("name", "reason")
        turn = advance(run_id=run.pk)
        run.refresh_from_db()
        if until_step and run.steps.get(name=until_step).reason:
            break
        time.sleep(min(turn.again_s or 0.0, 0.5))
    return run


def test_a_group_with_members_on_the_target_that_was_simulated_is_left_as_it_is(
    world: World,
) -> None:
    topic, group = copied(world), group_of(world)
    with world.member(group, topic):
        simulation = simulated(world)
        assert "group_active" in {row["code"] for row in simulation.plan["blockers"]}
        run = go_on(begin(world, "failover", simulation=simulation.pk))
        assert run.state == "succeeded", run.reason
    assert world.stands(group, topic) is None
    (row,) = run.result["partitions"]
    assert (row["state"], "members" in row["reason"]) == ("active", True)


def test_a_topic_recreated_with_fewer_partitions_and_restarted_stops_no_run(world: World) -> None:
    other = copied(world)
    topic = world.topic("shrunk", 6)
    for number in range(6):
        world.fill(topic, 5, partition=number)
    world.copy.copy()
    for side, name in ((world.copy.source, topic), (world.copy.target, world.remote(topic))):
        world.delete(side, name)
    world.copy.rows = [row for row in world.copy.rows if row.topic != topic]
    world.copy.source.make(topic, 2)
    world.copy.add(topic)
    restart(world, topic)
    for number in range(2):
        world.fill(topic, 7, partition=number)
    world.copy.copy()
    run = go_on(begin(world))
    assert run.state == "succeeded", (run.reason, list(run.steps.values("name", "reason")))
    totals = run.result["totals"]
    assert (totals["loss"], totals["loss_certainty"]) == (0, "counted")
    points = {(row.topic, row.partition) for row in points_of(flow=world.flow)}
    assert points == {(other, 0), (topic, 0), (topic, 1)}


def test_a_stale_offset_of_a_group_that_reads_another_topic_is_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_progress, "IDLE_AFTER_MS", 4_000)
    topic, group = copied(world), group_of(world)
    elsewhere = world.topic("elsewhere")
    with reader(world, group, elsewhere):
        run = go_on(begin(world), until_step="reset_groups")
    step = run.steps.get(name="read_checkpoints")
    assert step.state == "succeeded", step.reason
    assert f"whose offsets do not move: {group} in {topic}-0." in step.reason
    assert run.steps.get(name="reset_groups").result["moved"] == 1


def test_a_hook_that_could_not_be_called_stops_a_run_before_the_fence(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(world)
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_GONE", "s3cret")
    world.set(failover_webhook_secret="env:UNDERSTUDY_NOTIFY_GONE")
    run = begin(world)
    monkeypatch.delenv("UNDERSTUDY_NOTIFY_GONE")
    run = go_on(run)
    assert run.state == "failed"
    assert "A later step would fail after the fence: The webhook cannot be called" in run.reason
    assert "Nothing was changed." in run.reason


def test_groups_without_consumers_are_listed_and_do_not_hold_up_the_last_step(
    world: World,
) -> None:
    topic, idle = copied(world), group_of(world)
    active = f"{idle}-active"
    end = max(world.truth(topic)) + 1
    world.commit(active, topic, end)
    run = begin(world)
    with reader(world, active, topic):
        run = go_on(run, until_step="detect")
    run = go_on(run, until_step="verify_flow")
    step = run.steps.get(name="verify_flow")
    assert (run.state, step.state) == ("running", "running"), step.reason
    assert f"Not consuming yet: {active}." in step.reason
    assert f"so the run does not wait: {idle}." in step.reason
    with world.member(active, topic):
        run = go_on(run)
    assert run.state == "succeeded", run.reason
    assert run.steps.get(name="verify_flow").result["not_awaited"] == [idle]

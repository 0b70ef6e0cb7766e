"""Runs on real clusters: nothing that a simulation can find stops one behind the fence."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from mirrors.kafka.clients import client_config
from mirrors.models import FailoverRun
from mirrors.services.runbook.turn import advance
from tests.groups.world import World
from tests.mirrors.handover import OPEN, begin, copied, group_of, hooked_world
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


def go_on(run: FailoverRun, *, until_step: str = "", seconds: float = 60) -> FailoverRun:
    """Turn by turn to the end, or until a step has been looked at once."""
    limit = time.monotonic() + seconds
    while run.state in OPEN:
        assert time.monotonic() < limit, list(run.steps.values_list("name", "state", "reason"))
        turn = advance(run_id=run.pk)
        run.refresh_from_db()
        if until_step and run.steps.get(name=until_step).reason:
            break
        time.sleep(min(turn.again_s or 0.0, 0.5))
    return run


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
    assert f"not waited for: {idle}." in step.reason
    with world.member(active, topic):
        run = go_on(run)
    assert run.state == "succeeded", run.reason
    assert run.steps.get(name="verify_flow").result["not_awaited"] == [idle]

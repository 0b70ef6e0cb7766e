"""Failover runs on real clusters whose workers crash in each step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from mirrors.domain.failover.runbook.steps import STEPS
from mirrors.models import FailoverRun, FailoverStep
from mirrors.models import GroupOffset as GroupRow
from mirrors.services.failover import lifecycle
from mirrors.services.failover.runbook import lease
from mirrors.services.failover.runbook.worker import advance
from tests.groups.world import World
from tests.mirrors.switchover import (
    OPEN,
    begin,
    consume_there,
    copied,
    finish,
    group_of,
    hooked_world,
)
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db
NAMES = [step.name for step in STEPS]


class Killed(BaseException):
    """What nobody catches: the worker is gone in mid-step."""


@pytest.fixture
def world(primary: str, backup: str, receiver: Receiver) -> Iterator[World]:  # noqa: F811
    yield from hooked_world(primary, backup, receiver.url)


def state_after(world: World, topic: str, run: FailoverRun) -> dict[str, Any]:
    """All that a run leaves, without its times and what its group consumed by then."""
    world.flow.refresh_from_db()
    totals = {
        name: figure
        for name, figure in run.result["totals"].items()
        if not name.endswith(("_ms", "_at")) and name != "consumed"
    }
    return {
        "state": run.state,
        "steps": [(step.name, step.state) for step in run.steps.all()],
        "totals": totals,
        "places": [
            (row["partition"], row["downstream_offset"], row["state"] in ("moved", "in_sync"))
            for row in run.result["partitions"]
        ],
        "flow": (world.flow.desired_state, world.flow.observed_state),
        "group": world.stands(group_of(world), topic) is not None,
    }


def test_the_worker_killed_after_each_step_and_in_each_act_the_run_ends_in_the_same_state(
    world: World,
    receiver: Receiver,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = copied(world)
    clean = finish(world, topic, begin(world))
    assert clean.state == "succeeded", clean.reason
    wanted = state_after(world, topic, clean)
    keys = {headers["X-Understudy-Delivery"].partition("-")[2] for headers, _ in receiver.got}
    assert keys == {"fence_producers", "start_consumers", "redirect_producers"}

    again_from_the_start(world, topic)
    receiver.got.clear()
    deaths = {*((name, "step") for name in NAMES), *((name, "act") for name in NAMES)}
    run = begin(world)
    note = lease.record_action_end

    def dies(name: str, where: str) -> None:
        if (name, where) in deaths:
            deaths.remove((name, where))
            raise Killed

    def dies_in_the_act(*, row: FailoverStep) -> None:
        dies(row.name, "act")
        note(row=row)

    monkeypatch.setattr(lease, "record_action_end", dies_in_the_act)
    until = time.monotonic() + 90
    while run.state in OPEN:
        assert time.monotonic() < until, list(run.steps.values_list("name", "state", "reason"))
        consume_there(world, topic, run)
        try:
            # A killed worker releases nothing: it keeps the lease until that expires.
            with monkeypatch.context() as dead:
                dead.setattr(lease, "release", lambda **_: None)
                advance(run_id=run.pk, at_step=lambda name: dies(name, "step"))
        except Killed:
            assert run.pk not in lease.due_runs(now=timezone.now())
        missed = timezone.now() - 2 * lifecycle.LOST_AFTER
        FailoverRun.objects.filter(pk=run.pk).update(seen_at=missed)
        run.refresh_from_db()
        if run.state in OPEN:
            assert run.pk in lease.due_runs(now=timezone.now())
    assert not {name for name, where in deaths if where == "step"}
    assert state_after(world, topic, run) == wanted
    # A call that may have been heard is made again under the same key, so it can be told apart.
    mine = {headers["X-Understudy-Delivery"] for headers, _ in receiver.got}
    assert {key.partition("-")[2] for key in mine} == keys
    assert len(mine) == len(keys)


def again_from_the_start(world: World, topic: str) -> None:
    """As if nobody had ever handed over."""
    world.flow.desired_state = world.flow.observed_state = "running"
    world.flow.save()
    world.commit_there(group_of(world), topic, 1)
    GroupRow.objects.filter(flow=world.flow).delete()

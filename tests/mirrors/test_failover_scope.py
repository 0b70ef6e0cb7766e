"""A failover of one application on real clusters: the rest of the flow goes on."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest

from mirrors.domain.failover.scope import Scope
from mirrors.models import FailoverRun, SettingChange
from mirrors.services.failover import lifecycle
from mirrors.services.failover.runbook import commands
from mirrors.services.failover.runbook.worker import advance
from mirrors.services.failover.simulation import simulator
from mirrors.services.offsets.divergence_points import points_of
from tests.groups.world import World
from tests.mirrors.switchover import NO_HOOKS, OPEN
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(primary: str, backup: str) -> Iterator[World]:
    sides = Side("one", primary), Side(unique("two"), backup)
    here = World.make(*sides, groups=".*")
    here.flow.properties |= NO_HOOKS
    here.flow.save()
    yield here
    for side in sides:
        side.close()


def simulated(world: World, scope: Scope) -> FailoverRun:
    world.flow.refresh_from_db()
    run = simulator.request_simulation(flow=world.flow, who="tester", scope=scope)
    assert simulator.run_simulation(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "succeeded", run.reason
    return run


def carried_out(
    world: World,
    simulation: FailoverRun,
    kind: str = "switchover",
    at_step: Callable[[FailoverRun, str], object] = lambda run, name: None,
) -> FailoverRun:
    """`at_step` is called after each turn of a step, with the run and the step's name."""
    world.flow.refresh_from_db()
    asked = {"why": "tonight", "who": "ann", "confirm_alias": world.flow.target.alias}
    run = commands.request_execution(
        flow=world.flow,
        kind=kind,  # type: ignore[arg-type]
        simulation=simulation.pk,
        **asked,  # type: ignore[arg-type]
    )
    until = time.monotonic() + 90
    while run.state in OPEN:
        assert time.monotonic() < until, list(run.steps.values_list("name", "state", "reason"))
        turn = advance(run_id=run.pk, at_step=lambda name: at_step(run, name))
        run.refresh_from_db()
        time.sleep(min(turn.again_s or 0, 0.5))
    return run


def test_an_application_switches_over_and_the_rest_goes_on(world: World) -> None:
    app, other = world.topic("app.orders", 2), world.topic("other")
    for topic, partitions in ((app, 2), (other, 1)):
        for number in range(partitions):
            world.fill(topic, 40, partition=number)
    world.copy.copy()
    ours, theirs, both = unique("app-billing"), unique("other-audit"), unique("app-both")
    world.commit(ours, app, 25)
    world.commit(theirs, other, 10)
    world.commit(both, app, 30)
    world.commit(both, other, 5)
    outsider = unique("reporting")
    world.commit(outsider, app, 3)

    scope = Scope(topics=(app,), groups=(f"{ours}|{both}",))
    simulation = simulated(world, scope)
    plan = simulation.plan
    assert {row["topic"] for row in plan["partitions"]} == {app}
    assert {(row["group"], row["topic"]) for row in plan["places"]} == {(ours, app), (both, app)}
    found = {(row["code"], row["where"]) for row in plan["warnings"]}
    assert ("scope_reads_outside", both) in found
    assert ("scope_read_from_outside", outsider) in found
    assert not any(where == theirs for _, where in found)

    # Records of others that nobody has copied yet hold up no switchover of the application.
    world.fill(other, 20)
    run = carried_out(world, simulation)
    assert run.state == "succeeded", (run.reason, list(run.steps.values_list("name", "reason")))
    assert run.scope == scope.to_dict()
    assert run.result["totals"]["loss"] == 0
    assert run.result["totals"]["loss_certainty"] == "counted"
    assert app in run.reason

    # Every record of the application is there, and its groups stand at exactly the next one.
    for number in range(2):
        upstream = world.copy.source.read(app, number)
        downstream = world.copy.target.read(world.remote(app), number)
        assert [(one.key, one.value) for one in upstream] == [
            (one.key, one.value) for one in downstream
        ]
    assert world.stands(ours, app).offset == 25
    assert world.stands(both, app).offset == 30
    for group, topic in ((theirs, other), (both, other), (outsider, app)):
        assert world.stands(group, topic) is None, group

    # The flow runs, leaves out this topic alone, and who did it is kept.
    world.flow.refresh_from_db()
    assert world.flow.desired_state == "running"
    assert world.flow.observed_state != "failed_over"
    excluded = world.flow.properties["topics.exclude"]
    assert re.escape(app) in excluded
    change = SettingChange.objects.filter(flow=world.flow, key="topics.exclude").latest("pk")
    assert (change.who, change.after) == ("ann", excluded)
    assert {row.topic for row in points_of(flow=world.flow)} == {app}

    # The rest: all records come, those that were written meanwhile too.
    world.fill(other, 15)
    world.copy.rows = [row for row in world.copy.rows if row.topic != app]
    world.copy.copy()
    assert len(world.truth(other)) == 75


def test_an_abort_after_the_drain_includes_the_topics_again(world: World) -> None:
    app, other = world.topic("app"), world.topic("other")
    for topic in (app, other):
        world.fill(topic, 20)
    world.copy.copy()
    world.commit(unique("app-g"), app, 5)
    before = dict(world.flow.properties)
    seen: list[tuple[str, str]] = []

    def abort(run: FailoverRun, name: str) -> None:
        """Once the flow runs again without the topic."""
        if name == "drain" and not seen and run.steps.get(name=name).state == "succeeded":
            world.flow.refresh_from_db()
            seen.append((world.flow.properties["topics.exclude"], world.flow.desired_state))
            lifecycle.abort_run(run=FailoverRun.objects.get(pk=run.pk), who="ann")

    run = carried_out(world, simulated(world, Scope(topics=(app,))), at_step=abort)
    ((excluded, state),) = seen
    assert re.escape(app) in excluded
    assert state == "running"
    world.flow.refresh_from_db()
    assert run.state == "aborted"
    assert world.flow.properties == before
    assert world.flow.desired_state == "running"


def test_a_scope_that_names_nothing_blocks_and_another_scope_is_refused(world: World) -> None:
    app = world.topic("app")
    world.fill(app, 5)
    world.copy.copy()
    run = simulator.request_simulation(
        flow=world.flow, who="tester", scope=Scope(topics=("nosuch",))
    )
    assert simulator.run_simulation(run_id=run.pk)
    run.refresh_from_db()
    assert "scope_empty" in {row["code"] for row in run.plan["blockers"]}
    assert commands.newest_simulation(flow=world.flow, now=run.ended_at) is None

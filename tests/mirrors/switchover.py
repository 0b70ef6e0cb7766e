"""A switchover on real clusters: records copied by the test, the flow's hooks are a webhook."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from mirrors.models import FailoverRun
from mirrors.services.failover.runbook import commands
from mirrors.services.failover.runbook.worker import advance
from mirrors.services.failover.simulation import simulator
from tests.groups.world import World
from tests.wire.world import Side, unique

OPEN = ("queued", "running")
HOOKED = {
    f"failover.{name}": "webhook" for name in ("fence", "start.consumers", "redirect.producers")
}


def hooked_world(primary: str, backup: str, url: str) -> Iterator[World]:
    sides = Side("one", primary), Side(unique("two"), backup)
    here = World.make(*sides, groups=unique("app") + ".*")
    here.flow.properties |= {**HOOKED, "failover.webhook.url": url}
    here.flow.save()
    yield here
    for side in sides:
        side.close()


def group_of(world: World) -> str:
    return str(world.flow.properties["groups"]).removesuffix(".*")


def copied(world: World) -> str:
    """A topic with aborted and committed transactions, all of it copied; a group in its middle."""
    topic = world.topic("orders")
    world.fill_badly(topic, seed=7, batches=40)
    world.copy.copy()
    middle = sorted(world.truth(topic))[15]
    world.commit(group_of(world), topic, middle)
    return topic


def simulated(world: World) -> FailoverRun:
    run = simulator.request_simulation(flow=world.flow, who="tester")
    assert simulator.run_simulation(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "succeeded", run.reason
    return run


def begin(world: World, kind: str = "switchover", **changes: Any) -> FailoverRun:
    world.flow.refresh_from_db()
    asked = {"why": "tonight", "who": "ann", "confirm_alias": world.flow.target.alias, **changes}
    if "simulation" not in asked:
        asked["simulation"] = simulated(world).pk
    return commands.request_execution(flow=world.flow, kind=kind, **asked)  # type: ignore[arg-type]


def consume_there(world: World, topic: str, run: FailoverRun) -> None:
    """The group, started on the target, has read all: what the last step waits for."""
    if run.steps.get(name="redirect_producers").state == "succeeded":
        end = world.copy.target.ends(world.remote(topic))[0]
        world.commit_there(group_of(world), topic, end)


def finish(world: World, topic: str, run: FailoverRun, **how: Any) -> FailoverRun:
    until = time.monotonic() + 60
    while run.state in OPEN:
        assert time.monotonic() < until, list(run.steps.values_list("name", "state", "reason"))
        consume_there(world, topic, run)
        turn = advance(run_id=run.pk, **how)
        if turn.again_s:
            time.sleep(min(turn.again_s, 1.0))
        run.refresh_from_db()
    return run


# Nothing outside is called: these runs need no receiver and no person.
NO_HOOKS = dict.fromkeys(
    ("failover.fence", "failover.start.consumers", "failover.redirect.producers"), "none"
)


def carry_out(
    world: World, simulated: FailoverRun, kind: str, reads: Mapping[tuple[str, str], int]
) -> FailoverRun:
    """Begin a run of what was simulated and bring it to its end.

    `reads`: how far each (group, topic) has read on the target once consumers were started there.
    """
    world.flow.refresh_from_db()
    run = begin(world, kind, simulation=simulated.pk)
    until = time.monotonic() + 60
    while run.state in OPEN:
        assert time.monotonic() < until, list(run.steps.values_list("name", "state", "reason"))
        if run.steps.get(name="redirect_producers").state in ("succeeded", "skipped"):
            for (group, topic), end in reads.items():
                world.commit_there(group, topic, end)
        turn = advance(run_id=run.pk)
        time.sleep(min(turn.again_s or 0, 0.5))
        run.refresh_from_db()
    return run

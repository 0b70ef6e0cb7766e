"""Failovers of one application with a real runner: simulation, run, and the flow's jobs beside."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from mirrors.domain.failover.scope import Scope
from mirrors.domain.replication_policy import policy_for
from mirrors.models import FailoverRun, Flow, FlowPartition, FlowTopic, Hook, Job, Runner
from mirrors.services.failover.runbook import commands
from mirrors.services.failover.runbook.worker import advance
from mirrors.services.failover.simulation import simulator
from tests.monitoring.conftest import Receiver
from tests.pages import world
from tests.spark.failback_stage import PARTITIONS, WHO, FailbackFlows
from tests.spark.switching import HOOKS, Readers, Writers


def reconcile(way: FailbackFlows, flow: Flow) -> None:
    """Stop or start the flow's job, as its row asks."""
    flow.refresh_from_db()
    jobs = Job.objects.filter(flow=flow, ended_at=None)
    if flow.desired_state == "stopped":
        if flow.pk in way.running:
            way.stop(flow)
        jobs.update(ended_at=timezone.now(), state="stopped")
        Flow.objects.filter(pk=flow.pk).update(observed_state="stopped")
    elif flow.pk not in way.running:
        way.run(flow)
        if not jobs.exists():
            world.job(flow)
        Flow.objects.filter(pk=flow.pk).update(observed_state="running")
    flow.refresh_from_db()


def observed(way: FailbackFlows, flow: Flow, told: Receiver, topics: Sequence[str]) -> None:
    """The rows of a flow that runs and replicates these topics; its hooks are a webhook."""
    Hook.objects.get_or_create(name="clients", defaults={"url": told.url, "changed_by": WHO})
    flow.properties |= dict.fromkeys(HOOKS, "webhook") | {"failover.webhook": "clients"}
    flow.observed_state, flow.desired_state = "running", "running"
    flow.runner = flow.runner or world.runner()
    flow.save()
    policy = policy_for(flow.spec.settings, flow.source.alias, flow.target.alias)
    FlowPartition.objects.filter(flow=flow).delete()
    FlowTopic.objects.filter(flow=flow).delete()
    for topic in topics:
        remote = policy.remote_topic(topic)
        world.topic(flow, topic, remote_topic=remote, partitions=PARTITIONS)
        for number in range(PARTITIONS):
            world.partition(flow, topic, number)
        FlowPartition.objects.filter(flow=flow, topic=topic).update(remote_topic=remote)
    if not Job.objects.filter(flow=flow, ended_at=None).exists():
        world.job(flow)


def runner_row(way: FailbackFlows, settings: Any) -> Runner:
    """The row of the runner that copies; its directory is on this host.

    It has reported that it copies with the rules of the flow since the first record.
    """
    directory = way.lab.directory
    settings.RUNNER_ROOT = directory.parent
    facts = {"master": "local[1]", "slots": 4, "state": "ready", "host": settings.UNDERSTUDY_HOST}
    runner = Runner.objects.create(name=directory.name, **facts)
    flows = Flow.objects.filter(pk=way.there.pk)
    flows.update(runner=runner, rules_known=way.there.generation)
    way.there.refresh_from_db()
    return runner


def moved(
    way: FailbackFlows,
    flow: Flow,
    told: Receiver,
    *,
    kind: str,
    scope: Scope | None,
    readers: Sequence[Readers] = (),
    writers: Writers | None = None,
    to: str = "b",
) -> FailoverRun:
    """Simulate the application, then move it to the side `to`, with its clients.

    A job that is dead at the beginning starts again only after the run has stopped the flow.
    """
    is_dead = flow.pk not in way.running
    asked = simulator.request_simulation(flow=flow, who=WHO, scope=scope)
    assert simulator.run_simulation(run_id=asked.pk)
    asked.refresh_from_db()
    assert asked.state == "succeeded", (asked.reason, asked.result)
    # The flow runs until the run stops it.
    assert {row["code"] for row in asked.plan["blockers"]} <= {"writing"}, asked.plan["blockers"]
    run = commands.request_execution(
        flow=flow,
        kind=kind,  # type: ignore[arg-type]
        simulation=asked.pk,
        confirm_alias=flow.target.alias,
        why="Tonight.",
        who=WHO,
    )
    told.got.clear()
    until, started = time.monotonic() + 120, False
    while run.state in ("queued", "running"):
        assert time.monotonic() < until, list(run.steps.values_list("name", "state", "reason"))
        advance(run_id=run.pk)
        said = {body["step"] for body in told.bodies}
        if writers is not None and "fence_producers" in said:
            writers.side = to if "redirect_producers" in said else ""
        if "start_consumers" in said and not started:
            for reader in readers:
                reader.start(to)
            started = True
        if writers is not None:
            writers.go_on()
        for reader in readers:
            reader.go_on()
        flow.refresh_from_db()
        is_dead = is_dead and flow.desired_state != "stopped"
        if not is_dead:
            reconcile(way, flow)
        run.refresh_from_db()
    assert run.state == "succeeded", (
        run.reason, list(run.steps.values_list("name", "state", "reason"))
    )  # fmt: skip
    return run


def named(topic: str) -> Scope:
    return Scope(topics=(re.escape(topic),))

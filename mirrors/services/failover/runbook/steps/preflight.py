"""Steps detect and verify_target: state of both clusters; the plan is not worse than simulated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.plan import FailoverPlan, plan_failover
from mirrors.domain.failover.runbook.plan_drift import find_regressions
from mirrors.domain.failover.runbook.state_machine import Outcome
from mirrors.domain.formatting import plural
from mirrors.domain.groups.checkpoints import IDLE
from mirrors.kafka.admin.groups import GroupListing, list_reachable_groups
from mirrors.models import FailoverRun
from mirrors.services.clock import milliseconds
from mirrors.services.failover.plan_inputs import PlanInputs, read_plan_inputs
from mirrors.services.failover.runbook.context import Context, Handler, done, failed
from mirrors.services.failover.runbook.steps.drain import drain_obstacle
from mirrors.services.failover.runbook.steps.hooks import unavailable_hook
from mirrors.services.failover.runbook.steps.redirect_producers import irremovable_fence

DEADLINE_S = 8.0


def plan_now(context: Context) -> tuple[PlanInputs, FailoverPlan]:
    """A new plan of the run's groups, stored with the run."""
    run = context.run
    seen = read_plan_inputs(
        flow=context.flow,
        spec=context.spec_before,
        groups=run.groups,
        now=milliseconds(timezone.now()),
        tick=context.alive,
        scope=context.scope,
    )
    plan = plan_failover(seen.picture)
    groups = [group.seen_at for group in seen.picture.groups if group.seen_at is not None]
    context.keep(groups_seen_at=min(groups, default=None))
    run.plan = plan.to_dict()
    FailoverRun.objects.filter(pk=run.pk).update(plan=run.plan)
    return seen, plan


def worse_than_simulated(context: Context, plan: dict[str, Any]) -> tuple[str, ...]:
    simulated = context.run.simulation.plan if context.run.simulation else None
    if simulated is None:
        return ("The approved simulation was deleted.",)
    return find_regressions("switchover" if context.planned else "failover", simulated, plan)


def _detect(context: Context) -> Outcome:
    source, target = context.spec.source, context.spec.target
    list_reachable_groups(target, deadline_s=DEADLINE_S)
    context.alive()
    try:
        listed = list_reachable_groups(source, deadline_s=DEADLINE_S)
    except UnderstudyError as error:
        if context.planned:
            words = (
                f"{source.alias} does not respond, and a switchover needs it: {error.message} "
                "Simulate again and choose failover."
            )
            return failed(words, again=True, source_answers=False)
        words = f"{target.alias} responds. {source.alias} does not: {error.message}"
        return done(words, source_answers=False)
    words = f"{source.alias} and {target.alias} respond."
    if not context.planned:
        words += " A switchover would lose nothing; a failover does not wait."
    if not listed.is_complete:
        words += f" {listed.reason}"
    return done(words, source_answers=True, active_groups=active_groups(context, listed.groups))


def active_groups(context: Context, listed: Mapping[str, GroupListing]) -> list[str]:
    """The plan's groups with members on the listed cluster."""
    groups = {row["group"] for row in context.plan["places"]}
    return sorted(name for name in groups & listed.keys() if listed[name].state not in IDLE)


def _verify(context: Context) -> Outcome:
    _, plan = plan_now(context)
    said = plan.to_dict()
    numbers: dict[str, Any] = {
        "partitions": len(plan.partitions),
        "places": len(plan.places),
        "loss": plan.loss,
        "certainty": plan.certainty,
        "digest": plan.digest,
    }
    if worse := worse_than_simulated(context, said):
        words = f"The plan is worse than the simulated one: {' '.join(worse)}"
        return failed(words, **numbers)
    if trouble := _would_stop_it(context):
        return failed(f"A later step would fail after the fence: {trouble}", **numbers)
    target = context.spec.target.alias
    words = (
        f"{target} is as simulated: {plural(len(plan.partitions), 'partition')}, "
        f"{plural(len(plan.places), 'group-partition')}."
    )
    return done(words, **numbers)


def _would_stop_it(context: Context) -> str:
    """Why a later step could not succeed, checked while nothing is changed; empty when all can."""
    if trouble := unavailable_hook(context.run.hooks):
        return trouble
    context.alive()
    if trouble := irremovable_fence(context):
        return trouble
    context.alive()
    return drain_obstacle(context) if context.planned else ""


DETECT = Handler(wait=_detect)
VERIFY_TARGET = Handler(wait=_verify)

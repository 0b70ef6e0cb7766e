"""Commands to a run: begin, approve, confirm a step, pause, resume, lift the fence."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.failover.runbook.commands import commands
from mirrors.domain.failover.runbook.plan_drift import remaining_blockers
from mirrors.domain.failover.runbook.steps import BY_NAME, STEPS, Kind
from mirrors.domain.failover.scope import Scope
from mirrors.domain.formatting import duration
from mirrors.domain.replication_policy import policy_for
from mirrors.models import Failback, FailoverRun, FailoverStep, Flow, claim
from mirrors.models.audit.transitions import note
from mirrors.models.base import move, move_all
from mirrors.models.failover import FailoverKind, FailoverState, StepState, WaitsFor
from mirrors.services import run_lifecycle
from mirrors.services.access.approvals import needs_second_person
from mirrors.services.clock import milliseconds
from mirrors.services.errors import Conflict
from mirrors.services.failover import lifecycle
from mirrors.services.failover.runbook.steps import hooks
from mirrors.services.failover.runbook.steps.fence import remaining_fence
from mirrors.services.hooks import resolved_hooks

_TOLD = 3
_NOT_WAITING = "This run is not waiting for that, or no longer; see its reason."


def simulation_lifetime() -> timedelta:
    """How old a simulation may be to begin a run from it."""
    return timedelta(minutes=settings.UNDERSTUDY_FAILOVER_FRESH_MINUTES)


def newest_simulation(*, flow: Flow, now: datetime) -> FailoverRun | None:
    """The newest simulation of everything from which a run may begin now."""
    runs = FailoverRun.objects.filter(flow=flow, kind=FailoverKind.SIMULATION, scope={}, groups=[])
    good = runs.filter(state=FailoverState.SUCCEEDED, ended_at__gt=now - simulation_lifetime())
    return good.exclude(plan=None).first()


def fresh_simulation(*, flow: Flow, pk: int, now: datetime) -> FailoverRun | None:
    """This simulation, of everything or of one application, if a run may begin from it now."""
    runs = FailoverRun.objects.filter(pk=pk, flow=flow, kind=FailoverKind.SIMULATION)
    good = runs.filter(state=FailoverState.SUCCEEDED, ended_at__gt=now - simulation_lifetime())
    return good.exclude(plan=None).first()


def request_execution(
    *,
    flow: Flow,
    kind: Kind,
    simulation: int | None,
    confirm_alias: str,
    why: str,
    who: str,
    groups: Iterable[str] = (),
    failback: Failback | None = None,
    scope: Scope | None = None,
) -> FailoverRun:
    """A switchover or failover of exactly what was simulated; one sentence per refused field."""
    found, errors = _simulation(flow, kind, simulation)
    if confirm_alias.strip() != flow.target.alias:
        words = f"Type the target's alias, {flow.target.alias}, exactly; nothing was changed."
        errors["confirm_alias"] = [words]
    if not why.strip():
        errors["reason"] = ["Give a reason; the run keeps it."]
    if found is not None and groups and sorted(set(groups)) != found.groups:
        words = "These groups were not simulated. Remove them, or simulate them."
        errors["groups"] = [words]
    if found is not None and scope is not None and scope.to_dict() != found.scope:
        errors["scope"] = ["This scope was not simulated. Remove it, or simulate it."]
    chosen, missing = resolved_hooks(flow)
    errors |= {**hooks.check(chosen), **missing}
    if errors or found is None:
        raise InvalidSettings(errors)
    waits = needs_second_person(flow)
    with transaction.atomic():
        run = lifecycle.request_run(
            flow=flow,
            kind=kind,
            groups=found.groups,
            why=why.strip(),
            who=who,
            steps=[(step.name, step.title) for step in STEPS],
            simulation=found,
            failback=failback,
            scope=found.scope,
            hooks=chosen,
            state=FailoverState.WAITING if waits else FailoverState.QUEUED,
            waits_for=WaitsFor.APPROVAL if waits else "",
            reason="A second person must approve it." if waits else "Waiting for a worker.",
        )
        _write_commands(run, flow)
    return run


def approve(*, run: FailoverRun, who: str) -> FailoverRun:
    """By a second person, and only while the simulation is fresh."""
    if run.simulation is None or _age(run.simulation) > simulation_lifetime():
        limit = duration(simulation_lifetime() / timedelta(milliseconds=1))
        raise Conflict(
            f"Its simulation is older than {limit}: abort the run, simulate and request it again."
        )
    rows, changes = _waiting(run, WaitsFor.APPROVAL), _woken(run) | {"approved_by": who}
    asked, state = run.requested_by, FailoverState.RUNNING
    if not run_lifecycle.approve(
        rows, flow=run.flow, requested_by=asked, state=state, who=who, **changes
    ):
        raise Conflict(_NOT_WAITING)
    return _continue(run)


def pause(*, run: FailoverRun, who: str) -> FailoverRun:
    """Pause before the next step; a running step is not continued either."""
    open_ones = FailoverRun.objects.filter(
        pk=run.pk, state__in=[FailoverState.QUEUED, FailoverState.RUNNING]
    )
    if not open_ones.filter(abort_asked_by="").update(pause_asked_by=who):
        raise Conflict("This run is not running, so there is nothing to pause.")
    note(run, what="pause asked", who=who, why="")
    return _continue(run)


def resume(*, run: FailoverRun, who: str) -> FailoverRun:
    """Continue after a pause; retry a step, or its undo, that failed."""
    if run.state == FailoverState.RUNNING and run.pause_asked_by:
        FailoverRun.objects.filter(pk=run.pk).update(pause_asked_by="")
        note(run, what="pause withdrawn", who=who, why="")
        return _continue(run)
    if run.state != FailoverState.WAITING or run.waits_for == WaitsFor.APPROVAL:
        raise Conflict("This run is not waiting for that; see its reason.")
    with transaction.atomic():
        _wake(run, run.waits_for, f"Resumed by {who}.", who, pause_asked_by="")
        move_all(
            run.steps.all(),
            state=StepState.PENDING,
            attempt=0,
            acted_at=None,
            ended_at=None,
            due_at=None,
        )
        run.steps.filter(state=StepState.RUNNING).update(due_at=None)
        run.steps.update(undo_tries=0)
    return run


def confirm(
    *, run: FailoverRun, who: str, why: str = "", step: str = "", state: str = ""
) -> FailoverRun:
    """A person did what the step requested, or accepts an unmet condition.

    `step` and `state` are those that the person saw: a run may have continued to another step, or
    the step may have failed, in the second in which they pressed the button.
    """
    row = run.steps.filter(state__in=[StepState.WAITING, StepState.FAILED]).first()
    if run.state != FailoverState.WAITING or row is None or run.abort_asked_by:
        raise Conflict("No step of this run is waiting for a person.")
    if step not in ("", row.name) or state not in ("", row.state):
        raise Conflict(
            f"The run has changed meanwhile: “{row.does}” is {row.state} now. Read its reason, "
            "then decide."
        )
    if row.state == StepState.FAILED and not BY_NAME[row.name].accepts:
        raise Conflict(
            f"“{row.does}” cannot be accepted: {row.reason} Resume it, or abort the run."
        )
    with transaction.atomic():
        said = f"“{row.does}” was confirmed by {who}.{f' {why}' if why else ''}"
        _wake(run, run.waits_for, said, who)
        row.confirmed_by = who
        if row.state == StepState.FAILED:
            move(row, StepState.SUCCEEDED)
            row.ended_at = timezone.now()
            row.reason = f"Accepted by {who}. {row.reason}"
        else:
            # The person did the act: now the step checks its effect.
            move(row, StepState.RUNNING)
            row.acted_at, row.due_at = timezone.now(), None
        row.save(
            update_fields=["confirmed_by", "state", "ended_at", "reason", "acted_at", "due_at"]
        )
    return run


def request_fence_removal(*, run: FailoverRun, who: str, why: str) -> FailoverRun:
    """Let producers write on the source again; a worker removes the ACLs."""
    if remaining_fence(run=run) is None:
        raise Conflict("This run left no ACLs on its source, or has not ended.")
    if not why.strip():
        raise InvalidSettings({"reason": ["Give a reason; the audit log keeps it."]})
    note(run, what="fence lifted", who=who, why=why.strip())
    run_lifecycle.send_on_commit("mirrors.tasks.lift_fence", run.pk, who)
    return run


def _wake(run: FailoverRun, waits_for: str, words: str, who: str, **changes: str) -> None:
    more = _woken(run) | changes
    rows = _waiting(run, waits_for)
    if not claim(rows, state=FailoverState.RUNNING, reason=words, who=who, changes=more):
        raise Conflict(_NOT_WAITING)
    _continue(run)


def _waiting(run: FailoverRun, waits_for: str) -> QuerySet[FailoverRun]:
    return FailoverRun.objects.filter(pk=run.pk, state=FailoverState.WAITING, waits_for=waits_for)


def _woken(run: FailoverRun) -> dict[str, Any]:
    now = timezone.now()
    return {"waits_for": "", "holder": "", "next_at": now, "started_at": run.started_at or now}


def _continue(run: FailoverRun) -> FailoverRun:
    """Let a worker continue the run; returns the current row."""
    run_lifecycle.enqueue(run)
    run.refresh_from_db()
    return run


def _simulation(
    flow: Flow, kind: Kind, pk: int | None
) -> tuple[FailoverRun | None, dict[str, list[str]]]:
    runs = FailoverRun.objects.filter(flow=flow, kind=FailoverKind.SIMULATION)
    found = None if pk is None else runs.filter(pk=pk).first()
    words = ""
    if found is None:
        words = f"Enter a simulation of {flow.name}: a run executes only what was simulated."
    elif found.state != FailoverState.SUCCEEDED or found.plan is None:
        words = f"Simulation {found.pk} is {found.state}: {found.reason}"
    elif _age(found) > simulation_lifetime():
        limit = duration(simulation_lifetime() / timedelta(milliseconds=1))
        words = f"Simulation {found.pk} is older than {limit}. Simulate again; it takes seconds."
    elif kind == "switchover" and (trouble := (found.result or {}).get("source_trouble")):
        words = f"A switchover needs the source, which could not be read: {trouble}"
    elif kind == "switchover" and (blockers := remaining_blockers(kind, found.plan)):
        more = f" And {len(blockers) - _TOLD} more." if len(blockers) > _TOLD else ""
        words = f"There are blockers: {' '.join(blockers[:_TOLD])}{more}"
    return (None, {"simulation": [words]}) if words else (found, {})


def _age(run: FailoverRun) -> timedelta:
    return timezone.now() - (run.ended_at or run.created_at)


def _write_commands(run: FailoverRun, flow: Flow) -> None:
    spec = flow.spec
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    plan = run.simulation.plan if run.simulation else None
    texts = commands(
        source=spec.source.bootstrap_servers,
        target=spec.target.bootstrap_servers,
        checkpoints=policy.checkpoints_topic(),
        plan=plan or {"partitions": [], "places": []},
    )
    rows = list(FailoverStep.objects.filter(run=run))
    for row in rows:
        row.command = texts[row.name]
    FailoverStep.objects.bulk_update(rows, ["command"])


def seconds_left(run: FailoverRun, now: datetime) -> int:
    """How long a run may still begin from a simulation."""
    ended = run.ended_at or run.created_at
    return max(0, milliseconds(ended + simulation_lifetime()) - milliseconds(now)) // 1000

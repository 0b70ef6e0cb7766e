"""One drill: queued, simulated, and evaluated against the flow's objectives.

- A drill that could not begin, or whose simulation did not end, has failed: each one has a verdict.
- Each transition is a compare-and-set, so any number of workers may run this at once.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from mirrors.domain.drills.measurement import FlowFigures, StepTimes, measure
from mirrors.domain.drills.objectives import Measurement, Objectives, Verdict, judge
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.runbook.plan_drift import remaining_blockers
from mirrors.domain.failover.verification_level import VerificationSummary, verify
from mirrors.models import DrillRun, FailoverRun, Flow
from mirrors.models.drills.runs import DrillState
from mirrors.models.failover import FailoverState
from mirrors.models.flow_queries import figures_as_of, flows_with_lag
from mirrors.services import run_lifecycle
from mirrors.services.drills.objectives import objectives_of
from mirrors.services.errors import Conflict
from mirrors.services.failover.simulation import simulator

# How long a drill waits for another run of the same flow to end.
GIVE_UP_AFTER = timedelta(hours=1)
_AT_ONCE = 100


def begin_waiting(*, now: datetime) -> list[int]:
    """Request the simulations of queued drills; returns their runs."""
    waiting = DrillRun.objects.filter(state=DrillState.QUEUED)
    begun = []
    for run in waiting.select_related("flow__source", "flow__target")[:_AT_ONCE]:
        if run.flow is None:
            _fail(run, "Its flow was deleted before the drill started.", now)
            continue
        try:
            begun += _begin(run, run.flow, now)
        except Conflict as error:
            if now - run.created_at > GIVE_UP_AFTER:
                _fail(run, f"It could not start within an hour. {error.message}", now)
        except UnderstudyError as error:
            _fail(run, f"It could not start. {error.message}", now)
    return begun


def _begin(run: DrillRun, flow: Flow, now: datetime) -> list[int]:
    objectives = objectives_of(flow=flow)
    seen = flows_with_lag().get(pk=flow.pk)
    as_of = figures_as_of(seen)
    figures = {
        "offset_lag": seen.offset_lag,
        "time_lag_ms": seen.time_lag_ms,
        "as_of": as_of and as_of.isoformat(),
        "taken_at": now.isoformat(),
        "objectives_by": objectives.set_by,
    }
    with transaction.atomic():
        simulated = simulator.request_simulation(
            flow=flow,
            groups=run.groups,
            why=f"Drill {run.pk}. {run.reason}"[:500],
            who=run.requested_by,
        )
        mine = DrillRun.objects.filter(pk=run.pk, state=DrillState.QUEUED)
        if not run_lifecycle.claim_queued(
            mine,
            state=DrillState.RUNNING,
            reason="The simulation is running.",
            run=simulated,
            started_at=now,
            objectives=dataclasses.asdict(objectives.spec),
            figures=figures,
        ):
            # Another worker has begun it: drop this simulation.
            transaction.set_rollback(True)
            return []
    return [simulated.pk]


def judge_ended(*, now: datetime) -> int:
    """Evaluate each drill whose simulation has ended; returns how many this call evaluated."""
    running = DrillRun.objects.filter(state=DrillState.RUNNING)
    ended = running.filter(Q(run__ended_at__isnull=False) | Q(run=None))
    rows = ended.select_related("run").prefetch_related("run__steps")[:_AT_ONCE]
    return sum(_judge(run, now) for run in rows)


def _judge(run: DrillRun, now: datetime) -> bool:
    simulated = run.run
    if simulated is None:
        return _fail(run, "Its simulation was deleted with its flow before the drill ended.", now)
    steps = [
        StepTimes(name=step.name, started_at=step.started_at, ended_at=step.ended_at)
        for step in simulated.steps.all()
    ]
    blockers = remaining_blockers("switchover", simulated.plan) if simulated.plan else ()
    measured = measure(simulated.result, steps, _figures(run), blockers)
    verdict = judge(Objectives(**run.objectives), measured, trouble=_trouble(simulated))
    verified = VerificationSummary(
        verification=simulated.verification,  # type: ignore[arg-type]
        reason=simulated.verification_reason,
    )
    return _end(run, measured, verdict, simulated.ended_at or now, verified)


def _trouble(simulated: FailoverRun) -> str:
    return "" if simulated.state == FailoverState.SUCCEEDED else simulated.reason


def _figures(run: DrillRun) -> FlowFigures | None:
    if not run.figures:
        return None
    as_of = run.figures["as_of"]
    return FlowFigures(
        offset_lag=run.figures["offset_lag"],
        time_lag_ms=run.figures["time_lag_ms"],
        as_of=None if as_of is None else datetime.fromisoformat(as_of),
        taken_at=datetime.fromisoformat(run.figures["taken_at"]),
    )


def _fail(run: DrillRun, why: str, now: datetime) -> bool:
    objectives = Objectives(**run.objectives)
    verdict = judge(objectives, Measurement(), trouble=why)
    return _end(run, Measurement(), verdict, now, verify(None))


def _end(
    run: DrillRun,
    measured: Measurement,
    verdict: Verdict,
    now: datetime,
    verified: VerificationSummary,
) -> bool:
    return run_lifecycle.end(
        DrillRun.objects.filter(pk=run.pk, ended_at=None),
        state=verdict.outcome,
        reason=verdict.sentence,
        measured=dataclasses.asdict(measured),
        verdict=verdict.to_dict(),
        verification=verified.verification,
        verification_reason=verified.reason,
        ended_at=now,
    )

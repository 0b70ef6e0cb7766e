"""The reconciler: observe files and processes, let the rules decide, claim, act, store.

Level-triggered: each pass starts from the current state, so it completes what a crashed pass began.
- At most one job of a flow is open (a database constraint).
- A row changes before the file or process that follows from it.
- The reconciler never calls Kafka.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Q
from django.utils import timezone

from mirrors import launcher
from mirrors.domain.audit.actors import RECONCILER
from mirrors.domain.runners import reconciler
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.runners.reconciler import Decision
from mirrors.models import Flow, Job, Runner, claim
from mirrors.models.flows import DesiredState, ObservedState
from mirrors.services.clock import milliseconds, moment
from mirrors.services.flows import jobs, schedules
from mirrors.services.gaps import foreign_records
from mirrors.services.runners import cleanup, hosts, processes
from mirrors.services.runners.processes import directory_of

log = logging.getLogger(__name__)

# One pass makes at most this many steps with a flow; the next pass continues.
STEPS = 4
_LOCK_PATIENCE_S = 5.0


def reconcile(*, flow_id: int | None = None) -> int:
    """Bring one flow, or every flow of this host's runners, closer to its desired state."""
    with _alone() as alone:
        if not alone:
            return 0
        flows = list(_flows_here(flow_id))
        if flow_id is None:
            cleanup.clean_up()
        for flow in flows:
            _reconcile_apart(flow)
        return len(flows)


@contextlib.contextmanager
def _alone() -> Iterator[bool]:
    """One pass at a time per host: two would overwrite each other's spec files."""
    root = Path(settings.RUNNER_ROOT)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (root / "reconcile.lock").open("a") as file:
        until = time.monotonic() + _LOCK_PATIENCE_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    yield False
                    return
                time.sleep(0.05)
            else:
                yield True
                return


def _flows_here(flow_id: int | None) -> Iterator[Flow]:
    here = ["", settings.UNDERSTUDY_HOST]
    flows = Flow.objects.select_related("source", "target", "runner").filter(
        Q(runner__host__in=here) | Q(jobs__runner__host__in=here, jobs__ended_at=None)
    )
    if flow_id is not None:
        flows = flows.filter(pk=flow_id)
    yield from flows.distinct()


def _reconcile_apart(flow: Flow) -> None:
    """Reconcile one flow; its failure does not affect the others."""
    try:
        _reconcile_flow(flow)
    except DatabaseError:
        raise
    except Exception as error:
        log.exception("flow %s could not be reconciled", flow.pk)
        _name_trouble(flow.pk, f"It could not be reconciled: {_sentence(error)}")


def _name_trouble(flow_id: int, reason: str) -> None:
    flow = Flow.objects.select_related("source", "target").get(pk=flow_id)
    if flow.reason != reason:
        claim(
            Flow.objects.filter(pk=flow.pk, observed_state=flow.observed_state),
            observed_state=ObservedState.DEGRADED,
            reason=reason,
            who=RECONCILER,
        )


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or error} ({error.filename or 'no file'})."
    return f"{type(error).__name__}: {error}."


def _reconcile_flow(flow: Flow) -> None:
    for _ in range(STEPS):
        if not _step(flow):
            return
        fresh = Flow.objects.select_related("source", "target", "runner").filter(pk=flow.pk)
        if (again := fresh.first()) is None:
            return
        flow = again


def _step(flow: Flow) -> bool:
    """One observation and one action; True when more may follow at once."""
    if schedules.apply_schedule(flow=flow, now=timezone.now()):
        return True
    recent = list(Job.objects.filter(flow=flow).select_related("runner")[: jobs.MEMORY])
    job = next((job for job in recent if job.ended_at is None), None)
    runner = (job.runner if job is not None else None) or flow.runner
    if runner.host not in {"", settings.UNDERSTUDY_HOST}:
        return False
    if not runner.host and not hosts.takes_runners(settings.UNDERSTUDY_HOST):
        return False
    directory = directory_of(runner)
    seen = processes.observe(runner=runner)
    outdated = processes.outdated_start(runner=runner, status=seen.status) if seen.status else ""
    if outdated:
        processes.replace(runner=runner, reason=outdated)
        seen = processes.observe(runner=runner)
    spec, status = _spec_on_disk(directory, flow), launcher.read_status(directory, flow.pk)
    if job is None and spec is not None:
        # The process that ended the job crashed before this action.
        launcher.remove_spec(directory, flow.pk)
        spec = None
    if job is not None and status is not None and status.job == job.pk:
        jobs.take_status(flow=flow, job=job, status=status)
    leaving = _why_it_leaves(flow, job)
    decision = reconciler.decide(
        desired="stopped" if leaving else cast("reconciler.Desired", flow.desired_state),
        generation=flow.generation,
        jobs=[jobs.facts_of(row) for row in recent if jobs.counts(job=row, flow=flow)],
        runner=reconciler.Runner(
            alive=seen.alive,
            status=seen.status,
            started_at=seen.started_at,
            failed_starts=seen.failed_starts,
            has_flow=seen.status is not None and flow.pk in seen.status.flows,
        ),
        spec=spec,
        status=status,
        now=milliseconds(timezone.now()),
        concern=_concern(flow),
    )
    return _claim(flow, job, decision, leaving) and _act(flow, job, runner, decision)


def _concern(flow: Flow) -> str:
    """A problem of a flow that its runner does not report as one."""
    writes = foreign_records.find_ongoing(now=timezone.now(), flow=flow).get(flow.pk)
    return "" if writes is None else writes.sentence(flow.target.alias)


def _spec_on_disk(directory: Path, flow: Flow) -> JobSpec | None:
    """None also for a damaged file or one of another version: it is then written again."""
    try:
        return launcher.read_spec(directory, flow.pk)
    except (ValueError, KeyError, TypeError):
        return None


def _act(flow: Flow, job: Job | None, runner: Runner, decision: Decision) -> bool:
    match decision.action:
        case "start_runner":
            return processes.start(runner=runner, reason=f"{flow.name} needs it.")
        case "replace_runner":
            processes.replace(runner=runner, reason=decision.reason)
        case "remove_spec":
            launcher.remove_spec(directory_of(runner), flow.pk)
        case "write_spec":
            goes_on = job is not None and decision.job_ends is None
            current = job if goes_on else jobs.open_job(flow=flow)
            if current is None:
                return False
            spec = jobs.spec_of(flow=flow, job=current)
            launcher.write_spec(directory_of(current.runner or runner), spec)
        case _:
            return decision.job_ends is not None
    return True


def _claim(flow: Flow, job: Job | None, decision: Decision, leaving: str | None) -> bool:
    """Store the decision first; False when the flow changed meanwhile."""
    reason = decision.reason
    observed = reconciler.next_observed(
        decision,
        observed=flow.observed_state,
        desired=flow.desired_state,
        has_job=job is not None,
        leaves=bool(leaving),
    )
    if observed is None:
        return True
    if leaving and flow.desired_state != DesiredState.STOPPED:
        reason = leaving
    if observed == ObservedState.STOPPED or decision.finished:
        reason = schedules.reason_with_next_run(
            flow=flow, reason=reason, finished=decision.finished, now=timezone.now()
        )
    retry_at = moment(decision.retry_at) if decision.retry_at else None
    waits = decision.action in {"back_off", "give_up"}
    changes = {
        "retry_at": retry_at,
        "attempt": jobs.failures(flow=flow) if waits else 0,
    }
    with transaction.atomic():
        won = decision.job_ends is None or job is None or jobs.end_job(job=job, decision=decision)
        if won and (flow.observed_state, flow.reason, flow.retry_at) != (
            observed,
            reason,
            retry_at,
        ):
            asked = Flow.objects.filter(
                pk=flow.pk, observed_state=flow.observed_state, desired_state=flow.desired_state
            )
            won = claim(
                asked, observed_state=observed, reason=reason, who=RECONCILER, changes=changes
            )
        if won and decision.finished:
            won = schedules.complete_run(flow=flow, reason=reason)
        if not won:
            transaction.set_rollback(True)
    return won


def _why_it_leaves(flow: Flow, job: Job | None) -> str | None:
    if job is None:
        return None
    if flow.desired_state == DesiredState.STOPPED:
        return "Stopped, as requested."
    if job.restarts != flow.restarts:
        return "Restarting, as requested: the last job commits first."
    if job.runner_id != flow.runner_id:
        return f"Moving to the runner {flow.runner.name}: the last job commits first."
    return None

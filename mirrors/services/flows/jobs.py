"""Jobs as rows: open, end, store the runner's status, count consecutive failures."""

from __future__ import annotations

from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from mirrors.domain.audit.actors import RECONCILER, RUNNER
from mirrors.domain.runners import restarts
from mirrors.domain.runners.job_files import JobSpec, JobStatus
from mirrors.domain.runners.reconciler import Decision
from mirrors.domain.sync.tasks import TAKEOVER_CHECK
from mirrors.models import DutyRun, Flow, FlowPartition, Job, claim
from mirrors.models.audit.transitions import record
from mirrors.models.flows import DesiredState, JobState
from mirrors.services.clock import milliseconds
from mirrors.services.flows import progress, schedules
from mirrors.services.gaps import lost_ranges

# How far back ended jobs are read to compute the backoff.
MEMORY = 30
# How long a takeover's check of the target replaces the check before a first start.
_CHECK_HOLDS = timedelta(seconds=30)


def end_job(*, job: Job, decision: Decision) -> bool:
    ends = str(decision.job_ends)
    return claim(
        Job.objects.filter(pk=job.pk, ended_at__isnull=True),
        state=ends,
        reason=decision.reason,
        who=RECONCILER,
        changes={
            "ended_at": timezone.now(),
            "error": decision.reason if ends == JobState.FAILED else "",
        },
    )


def open_job(*, flow: Flow) -> Job | None:
    """A new job, or None when another worker opened one."""
    try:
        with transaction.atomic():
            job = Job.objects.create(
                flow=flow,
                runner=flow.runner,
                generation=flow.generation,
                attempt=failures(flow=flow) + 1,
                restarts=flow.restarts,
                reason="Passed to the runner.",
            )
            record(job, field="state", before="", who=RECONCILER, why=f"Run of {flow.name}.")
    except IntegrityError:
        return None
    return job


def take_status(*, flow: Flow, job: Job, status: JobStatus) -> None:
    """Store the runner's status: figures, and the state of the job while it is open."""
    fresh = progress.ingest(flow=flow, job=job, status=status)
    ended = status.state in {"failed", "stopped"}
    if fresh and not ended and (job.state, job.reason) != (status.state, status.reason):
        claim(
            Job.objects.filter(pk=job.pk, ended_at__isnull=True, state=job.state),
            state=status.state,
            reason=status.reason,
            who=RUNNER,
        )


def is_settled(*, flow_id: int) -> bool:
    """Whether a flow has reached its desired state, edits and restarts included."""
    flow = Flow.objects.filter(pk=flow_id).first()
    if flow is None or flow.desired_state == DesiredState.STOPPED:
        return flow is None or flow.observed_state in {"stopped", "draft", "failed_over", "failed"}
    job = Job.objects.filter(flow=flow, ended_at__isnull=True).first()
    if job is None or (job.generation, job.restarts) != (flow.generation, flow.restarts):
        return False
    return flow.observed_state in {flow.desired_state, "degraded"}


def spec_of(*, flow: Flow, job: Job) -> JobSpec:
    return JobSpec(
        job=job.pk,
        flow=flow.pk,
        name=flow.name,
        generation=flow.generation,
        desired="paused" if flow.desired_state == DesiredState.PAUSED else "running",
        source=flow.source.spec,
        target=flow.target.spec,
        properties=dict(flow.properties),
        decisions=lost_ranges.decisions_of(flow=flow),
        ends_at=schedules.ends_at(flow=flow, now=timezone.now()),
        is_first=not FlowPartition.objects.filter(flow=flow, position__isnull=False).exists(),
        accepts_writers=flow.accepts_other_writers or _was_checked(flow),
    )


def _was_checked(flow: Flow) -> bool:
    """Whether a takeover has just checked the target and found no writes of MirrorMaker 2."""
    run = DutyRun.objects.filter(flow=flow, duty=TAKEOVER_CHECK, error="").first()
    if run is None or run.ended_at is None or not run.counts.get("quiet"):
        return False
    return run.ended_at > timezone.now() - _CHECK_HOLDS


def counts(*, job: Job, flow: Flow) -> bool:
    """Whether the job's failure counts: a person's start resets earlier failures."""
    if job.ended_at is None or flow.forgiven_at is None:
        return True
    return job.started_at > flow.forgiven_at - timedelta(milliseconds=1)


def failures(*, flow: Flow) -> int:
    jobs = Job.objects.filter(flow=flow)[:MEMORY]
    return restarts.failures_in_a_row([facts_of(job) for job in jobs if counts(job=job, flow=flow)])


def facts_of(job: Job) -> restarts.JobRow:
    return restarts.JobRow(
        id=job.pk,
        generation=job.generation,
        state=job.state,
        started_at=milliseconds(job.started_at),
        ended_at=milliseconds(job.ended_at) if job.ended_at else None,
        reason=job.error,
    )

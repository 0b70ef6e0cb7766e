"""Life cycle of failbacks: request, requeue, retry, close."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from mirrors.domain.audit.actors import RECONCILER
from mirrors.models import Failback, Flow, Job, claim
from mirrors.models.audit.transitions import note
from mirrors.models.failback import FailbackState
from mirrors.models.flows import DesiredState
from mirrors.services import run_lifecycle
from mirrors.services.errors import Conflict

LOST_AFTER = timedelta(seconds=90)


def request_failback(*, flow: Flow, who: str, why: str = "") -> Failback:
    """Store the run that a worker takes. One open run per flow."""
    check_stopped(flow)
    return run_lifecycle.request(
        Failback,
        refusal=f"A failback of {flow.name} is already open. Use it, or close it first.",
        who=who,
        noted=why or f"For {flow.name}.",
        flow=flow,
        why=why,
    )


def check_stopped(flow: Flow) -> None:
    """The original flow must not write: later records would exceed the divergence point."""
    if not is_stopped(flow):
        raise Conflict(
            f"{flow.name} is not stopped. A failback needs a stopped flow: fail over, or stop it."
        )


def is_stopped(flow: Flow) -> bool:
    """The flow is stopped, and its last job has ended."""
    flow.refresh_from_db(fields=["desired_state"])
    stopped = flow.desired_state == DesiredState.STOPPED
    return stopped and not Job.objects.filter(flow=flow, ended_at=None).exists()


def check_running(run: Failback) -> None:
    if run.scope:
        raise Conflict(
            "This run only lists records that the failover of one application left. Move its "
            "clients by a switchover of the reverse flow with the same scope."
        )
    if run.state != FailbackState.RUNNING:
        raise Conflict(f"The failback is {run.state}, so it has no running reverse flow.")


def request_groups(*, run: Failback, act: bool, who: str) -> None:
    """Let a worker find the resume offsets of the groups; with `act`, it moves idle groups."""
    check_running(run)
    note(run, what="move of groups asked" if act else "groups asked", who=who, why="")
    run_lifecycle.send_on_commit("mirrors.tasks.bring_groups_back", run.pk, act)


def close_failback(*, run: Failback, who: str, why: str) -> Failback:
    """End it: the reverse flow keeps running, and undecided orphans stay where they are."""
    reason = f"Closed by {who}: {why}" if why else f"Closed by {who}."
    rows = Failback.objects.filter(pk=run.pk, ended_at=None)
    running = rows.filter(state=FailbackState.RUNNING)
    others = rows.exclude(state=FailbackState.RUNNING)
    ended = run_lifecycle.end(
        running, state=FailbackState.SUCCEEDED, reason=reason, who=who
    ) or run_lifecycle.end(others, state=FailbackState.ABORTED, reason=reason, who=who)
    if not ended:
        raise Conflict("This failback was already closed.")
    run.refresh_from_db()
    return run


def waiting_failbacks() -> list[int]:
    """Failbacks without a worker, to be queued again: preparation is idempotent."""
    now = timezone.now()
    preparing = Failback.objects.filter(state=FailbackState.PREPARING)
    lost = run_lifecycle.lost_runs(preparing, now=now, after=LOST_AFTER)
    for pk in lost.values_list("pk", flat=True):
        claim(
            Failback.objects.filter(pk=pk, state=FailbackState.PREPARING),
            state=FailbackState.QUEUED,
            reason="The worker that prepared it was lost; another worker starts over.",
            who=RECONCILER,
        )
    queued = Failback.objects.filter(state=FailbackState.QUEUED)
    return run_lifecycle.unclaimed_runs(queued, now=now, since="since")


def retry_failback(*, run: Failback, who: str) -> Failback:
    """Retry a failed one, after its cause is fixed."""
    rows = Failback.objects.filter(pk=run.pk, state=FailbackState.FAILED, ended_at=None)
    if not claim(rows, state=FailbackState.QUEUED, reason=run_lifecycle.WAITING, who=who):
        raise Conflict("Only a failback that failed can be retried.")
    run_lifecycle.enqueue(run)
    run.refresh_from_db()
    return run

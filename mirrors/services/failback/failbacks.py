"""Ways back as rows: ask for one, send it again, try again, close it."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from mirrors.models import Failback, Flow, Job, claim
from mirrors.models.failbacks import FailbackState
from mirrors.models.flows import DesiredState
from mirrors.models.transitions import record
from mirrors.services.errors import Conflict
from mirrors.services.work import ASK_AGAIN_AFTER, one_open

LOST_AFTER = timedelta(seconds=90)


def request_failback(*, flow: Flow, who: str, why: str = "") -> Failback:
    """Write the row that a worker takes; the caller enqueues on commit. One at a time a flow."""
    check_at_rest(flow)
    with one_open(f"A way back of {flow.name} is under way already. Open it, or close it first."):
        run = Failback.objects.create(
            flow=flow, requested_by=who, why=why, reason="Waiting for a worker."
        )
        record(run, field="state", before="", who=who, why=why or f"For {flow.name}.")
    return run


def check_at_rest(flow: Flow) -> None:
    """The flow there must not write: what it wrote later would lie behind the divergence point."""
    if not is_at_rest(flow):
        raise Conflict(
            f"{flow.name} is not stopped. The way back begins when it rests: fail over, or stop it."
        )


def is_at_rest(flow: Flow) -> bool:
    """It is stopped, and no job of it has still to end."""
    flow.refresh_from_db(fields=["desired_state"])
    stopped = flow.desired_state == DesiredState.STOPPED
    return stopped and not Job.objects.filter(flow=flow, ended_at=None).exists()


def check_running(run: Failback) -> None:
    if run.state != FailbackState.RUNNING:
        raise Conflict(f"The way back is {run.state}: there is no flow back that runs for it.")


def close_failback(*, run: Failback, who: str, why: str) -> Failback:
    """End it: the flow back goes on as any other, and undecided orphans stay where they are."""
    rows = Failback.objects.filter(pk=run.pk, ended_at=None)
    done = run.state == FailbackState.RUNNING
    state = FailbackState.SUCCEEDED if done else FailbackState.ABORTED
    reason = f"Closed by {who}: {why}" if why else f"Closed by {who}."
    if not claim(rows, state=state, reason=reason, who=who, changes={"ended_at": timezone.now()}):
        raise Conflict("This way back has been closed already.")
    run.refresh_from_db()
    return run


def waiting_failbacks() -> list[int]:
    """Those that no worker took, or whose worker was lost: preparing again does nothing twice."""
    now = timezone.now()
    lost = Failback.objects.filter(state=FailbackState.PREPARING, seen_at__lt=now - LOST_AFTER)
    for pk in lost.values_list("pk", flat=True):
        claim(
            Failback.objects.filter(pk=pk, state=FailbackState.PREPARING),
            state=FailbackState.QUEUED,
            reason="The worker that prepared it was lost; another one begins again.",
            who="reconciler",
        )
    old = Failback.objects.filter(state=FailbackState.QUEUED, since__lt=now - ASK_AGAIN_AFTER)
    return list(old.values_list("pk", flat=True))


def try_again(*, run: Failback, who: str) -> Failback:
    """One that failed, once its cause is mended."""
    rows = Failback.objects.filter(pk=run.pk, state=FailbackState.FAILED, ended_at=None)
    if not claim(rows, state=FailbackState.QUEUED, reason="Waiting for a worker.", who=who):
        raise Conflict("Only a way back that failed can be tried again.")
    run.refresh_from_db()
    return run

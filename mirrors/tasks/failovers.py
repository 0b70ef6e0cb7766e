"""Failovers and drills turn by turn, and the look for those that nobody goes on with."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from mirrors.services.evidence import certificates, drill_runs, drills
from mirrors.services.failover import failovers, simulation
from mirrors.services.runbook import fencing, loss_recount
from mirrors.services.runbook.rows import due_runs
from mirrors.services.runbook.turn import advance
from mirrors.tasks.sending import EXPIRES, send_each
from mirrors.tasks.supervision import reconcile_flow


@shared_task(name="mirrors.tasks.run_failover", soft_time_limit=150, time_limit=170)
def run_failover(run_id: int) -> None:
    """A simulation in one go; a real run turn by turn, each of which sends the next."""
    if simulation.run_simulation(run_id=run_id):
        return
    turn = advance(run_id=run_id)
    if turn.changed_flow is not None:
        reconcile_flow.delay_on_commit(turn.changed_flow)
    if turn.again_s is not None:
        expires = turn.again_s + EXPIRES
        run_failover.apply_async(args=[run_id], countdown=turn.again_s, expires=expires)


@shared_task(name="mirrors.tasks.lift_fence")
def lift_fence(run_id: int, who: str) -> None:
    fencing.lift_fence(run_id=run_id, who=who)


@shared_task(name="mirrors.tasks.count_loss", soft_time_limit=150, time_limit=170)
def count_loss(run_id: int) -> None:
    """What an ended failover left on its source, counted once that is back."""
    loss_recount.recount(run_id=run_id)


@shared_task(name="mirrors.tasks.sweep_failovers")
def sweep_failovers() -> None:
    now = timezone.now()
    send_each(run_failover, [*failovers.waiting_runs(), *due_runs(now=now)])
    send_each(count_loss, loss_recount.due_counts(now=now))
    simulation.sweep()


@shared_task(name="mirrors.tasks.run_drills")
def run_drills() -> None:
    """Judge and certify what has ended, take what is due, and begin what waits."""
    now = timezone.now()
    drill_runs.judge_ended(now=now)
    certificates.issue_missing(now=now)
    drills.take_due(now=now)
    send_each(run_failover, drill_runs.begin_waiting(now=now))

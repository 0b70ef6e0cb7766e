"""The way back after a failover, and the look for those that nobody goes on with."""

from __future__ import annotations

from celery import shared_task

from mirrors.services.failback import (
    failback_switch,
    failback_turns,
    failback_work,
    failbacks,
    orphan_settling,
)
from mirrors.tasks.failovers import run_failover
from mirrors.tasks.sending import send_each
from mirrors.tasks.supervision import reconcile_flow


@shared_task(name="mirrors.tasks.run_failback", soft_time_limit=270, time_limit=290)
def run_failback(run_id: int) -> None:
    flow = failback_work.prepare_failback(run_id=run_id)
    if flow is not None:
        reconcile_flow.delay_on_commit(flow.pk)


@shared_task(name="mirrors.tasks.settle_orphans", soft_time_limit=570, time_limit=590)
def settle_orphans(run_id: int) -> None:
    orphan_settling.settle_orphans(run_id=run_id)


@shared_task(name="mirrors.tasks.bring_groups_back", soft_time_limit=90, time_limit=100)
def bring_groups_back(run_id: int, act: bool) -> None:
    failback_turns.look_at_groups(run_id=run_id, act=act)


@shared_task(name="mirrors.tasks.sweep_failbacks")
def sweep_failbacks() -> None:
    send_each(run_failback, failbacks.waiting_failbacks())
    send_each(settle_orphans, failback_turns.waiting_orphans())
    send_each(run_failover, failback_switch.begin_simulated())
    failback_switch.close_switched()

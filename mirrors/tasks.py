"""Celery's ways in: an id comes in, a service is called. Each may run twice or never."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

from celery import Task, shared_task
from django.db import DatabaseError
from django.utils import timezone

from mirrors.services import (
    clusters,
    duties,
    housekeeping,
    job_rows,
    jobs,
    pruning,
    sightings,
    takeovers,
)
from mirrors.services.comparing.rows import waiting_comparisons
from mirrors.services.comparing.turn import run_turn
from mirrors.services.evidence import certificates, drill_runs, drills
from mirrors.services.failback import (
    failback_switch,
    failback_turns,
    failback_work,
    failbacks,
    orphan_settling,
)
from mirrors.services.failover import failovers, simulation
from mirrors.services.heart import heartbeats
from mirrors.services.offsets import catching_up, runs_retiring
from mirrors.services.runbook import fencing
from mirrors.services.runbook.rows import due_runs
from mirrors.services.runbook.turn import advance
from mirrors.services.sync import drift, plans

log = logging.getLogger(__name__)

# Beat asks again so often; what no worker took by then is sent anew.
EXPIRES = 10.0
DUTY_EXPIRES = 5.0
RUNS_EXPIRES = 5.0
RETIRING_EXPIRES = 3000.0
# So often beat asks for heartbeats.
HEARTS_S = 2.5
# After a change a flow is looked at so often, until it is as asked; then beat goes on.
LOOKS = 12
LOOK_AGAIN_S = 0.25


@shared_task(bind=True)
def reconcile(self: Task) -> None:
    """Sent by beat: look at every flow of this host, and have the other hosts do the same."""
    sightings.see(kind=sightings.BEAT, name="beat", pid=0)
    _reconcile_here(self)
    hosts = housekeeping.hosts_elsewhere()
    _pass_on(hosts)
    housekeeping.name_unserved(hosts=hosts)


@shared_task(bind=True)
def reconcile_host(self: Task) -> None:
    """Sent by another host's worker to this host's own queue."""
    _reconcile_here(self)


@shared_task
def reconcile_flow(flow_id: int, looks: int = LOOKS) -> None:
    """Sent when a person changed something: do not wait for beat, neither to act nor to see."""
    jobs.reconcile(flow_id=flow_id)
    if looks > 1 and not job_rows.is_settled(flow_id=flow_id):
        reconcile_flow.apply_async(args=[flow_id, looks - 1], countdown=LOOK_AGAIN_S, expires=10)
    _pass_on(housekeeping.hosts_elsewhere(flow_id=flow_id))


@shared_task
def run_test(test_id: int) -> None:
    clusters.run_test(test_id=test_id)


@shared_task
def check_clusters() -> None:
    _send_each(check_cluster, clusters.due_clusters(), queue="collect", expires=28.0)


@shared_task
def check_cluster(cluster_id: int) -> None:
    clusters.check_cluster(cluster_id=cluster_id)


@shared_task
def sweep_tests() -> None:
    clusters.sweep_tests()


@shared_task
def run_due_duties() -> None:
    for flow_id, name in duties.due_duties(now=timezone.now()):
        run_duty.apply_async(args=[flow_id, name], queue="default", expires=DUTY_EXPIRES)


@shared_task
def run_duty(flow_id: int, name: str) -> None:
    duties.run_duty(flow_id=flow_id, name=name, now=timezone.now())


@shared_task
def beat_hearts(until: float | None = None) -> None:
    """Beat comes rarely, or an idle deployment would spend itself; shorter intervals go on here."""
    again_s = heartbeats.beat(now=timezone.now()).again_s
    now = timezone.now().timestamp()
    until = until or now + HEARTS_S
    if again_s is not None and now + again_s < until:
        beat_hearts.apply_async(args=[until], countdown=again_s, expires=HEARTS_S)


@shared_task
def look_at_plan(flow_id: int) -> None:
    plans.look_now(flow_id=flow_id, now=timezone.now())


@shared_task
def apply_plan(flow_id: int) -> None:
    plans.apply_now(flow_id=flow_id, now=timezone.now())


@shared_task
def fix_drift(flow_id: int) -> None:
    drift.fix_now(flow_id=flow_id, now=timezone.now())


@shared_task
def check_takeover(run_id: int, flow_id: int, seconds: int, start: bool, who: str) -> None:
    if takeovers.run_check(run_id=run_id, seconds=seconds, start=start, who=who) and start:
        reconcile_flow.delay_on_commit(flow_id)


@shared_task
def refresh_runs() -> None:
    for flow_id in catching_up.due_flows():
        refresh_runs_of.delay(flow_id)


@shared_task(expires=RUNS_EXPIRES)
def refresh_runs_of(flow_id: int) -> None:
    catching_up.catch_up(flow_id=flow_id)


@shared_task
def retire_runs() -> None:
    due = runs_retiring.flows_with_old_runs()
    _send_each(retire_runs_of, due, queue="collect", expires=RETIRING_EXPIRES)


@shared_task
def retire_runs_of(flow_id: int) -> None:
    runs_retiring.retire_some(flow_id=flow_id)


@shared_task(soft_time_limit=150, time_limit=170)
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


@shared_task
def lift_fence(run_id: int, who: str) -> None:
    fencing.lift_fence(run_id=run_id, who=who)


@shared_task
def sweep_failovers() -> None:
    _send_each(run_failover, [*failovers.waiting_runs(), *due_runs(now=timezone.now())])
    simulation.sweep()


@shared_task(soft_time_limit=270, time_limit=290)
def run_failback(run_id: int) -> None:
    flow = failback_work.prepare_failback(run_id=run_id)
    if flow is not None:
        reconcile_flow.delay_on_commit(flow.pk)


@shared_task(soft_time_limit=570, time_limit=590)
def settle_orphans(run_id: int) -> None:
    orphan_settling.settle_orphans(run_id=run_id)


@shared_task(soft_time_limit=90, time_limit=100)
def bring_groups_back(run_id: int, act: bool) -> None:
    failback_turns.look_at_groups(run_id=run_id, act=act)


@shared_task
def sweep_failbacks() -> None:
    _send_each(run_failback, failbacks.waiting_failbacks())
    _send_each(settle_orphans, failback_turns.waiting_orphans())
    _send_each(run_failover, failback_switch.begin_simulated())
    failback_switch.close_switched()


@shared_task
def run_drills() -> None:
    """Judge and certify what has ended, take what is due, and begin what waits."""
    now = timezone.now()
    drill_runs.judge_ended(now=now)
    certificates.issue_missing(now=now)
    drills.take_due(now=now)
    _send_each(run_failover, drill_runs.begin_waiting(now=now))


@shared_task(soft_time_limit=150, time_limit=170)
def run_comparison(comparison_id: int) -> None:
    """Some seconds of it; then it goes to the end of the queue, so that others have their turn."""
    if run_turn(comparison_id=comparison_id):
        run_comparison.delay(comparison_id)


@shared_task
def sweep_comparisons() -> None:
    _send_each(run_comparison, waiting_comparisons())


@shared_task
def prune() -> dict[str, int]:
    return pruning.prune()


@shared_task(bind=True)
def show_sign(self: Task) -> None:
    sightings.see(kind=sightings.WORKER, name=_name(self), pid=os.getppid())


def _reconcile_here(task: Any) -> None:
    try:
        sightings.see(kind=sightings.RECONCILE_WORKER, name=_name(task), pid=os.getppid())
        jobs.reconcile()
    except DatabaseError as error:
        # Beat asks again in two seconds; a traceback each time would bury the log.
        log.error("reconcile: the database refuses: %s", error)


def _name(task: Any) -> str:
    return str(task.request.hostname or "in this process")


def _pass_on(hosts: set[str]) -> None:
    for host in sorted(hosts):
        reconcile_host.apply_async(queue=f"reconcile.{host}", expires=EXPIRES)


def _send_each(
    task: Task, ids: Iterable[int], *, queue: str = "default", expires: float = EXPIRES
) -> None:
    for row_id in ids:
        task.apply_async(args=[row_id], queue=queue, expires=expires)

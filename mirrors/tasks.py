"""Celery tasks of clusters, flows, runners and runs: each takes an id and calls one service.

- Delivery is at least once or lost: each task may run twice or never, and a sweep repeats it.
- Task names are stored in messages and in the beat schedule: they do not change.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

from celery import Task, shared_task
from django.db import DatabaseError
from django.utils import timezone

from mirrors.services import clusters, process_liveness, retention
from mirrors.services.audit import chain
from mirrors.services.comparison.conflicts import advance_report
from mirrors.services.comparison.lifecycle import waiting_comparisons
from mirrors.services.comparison.schedules import open_due_comparisons
from mirrors.services.comparison.worker import advance_comparison
from mirrors.services.drills import runs, schedules
from mirrors.services.drills.certificates import issuance
from mirrors.services.failback import groups, orphan_resolution, preparation, switchover
from mirrors.services.failback.lifecycle import waiting_failbacks
from mirrors.services.failover.lifecycle import is_simulation, waiting_runs
from mirrors.services.failover.runbook.lease import due_runs
from mirrors.services.failover.runbook.steps import fence, loss_recount
from mirrors.services.failover.runbook.worker import advance
from mirrors.services.failover.simulation import simulator
from mirrors.services.flows import jobs, moves, reconciler
from mirrors.services.heartbeats import emitter
from mirrors.services.migration import takeover
from mirrors.services.offsets import index_refresh
from mirrors.services.offsets.retention import current_runs, old_runs, skipped_records
from mirrors.services.offsets.retention.old_runs import claim_retention
from mirrors.services.runners import cleanup
from mirrors.services.schemas.sync import compare_on_request
from mirrors.services.sync import scheduler
from mirrors.services.topics import drift, plans, positions, readings, transforms

log = logging.getLogger(__name__)

# Beat repeats its sweeps at this interval, so an unclaimed message may expire by then.
EXPIRES = 10.0
# After a change a flow is reconciled up to this often until it is settled; then beat continues.
LOOKS = 12
LOOK_AGAIN_S = 0.25
DUTY_EXPIRES = 5.0
RUNS_EXPIRES = 5.0
RETIRING_EXPIRES = 3000.0
# Interval of beat's heartbeat task.
HEARTBEATS_S = 2.5


def send_each(
    task: Task, ids: Iterable[int], *, queue: str = "default", expires: float = EXPIRES
) -> None:
    for row_id in ids:
        task.apply_async(args=[row_id], queue=queue, expires=expires)


@shared_task(name="mirrors.tasks.reconcile", bind=True)
def reconcile(self: Task) -> None:
    """Sent by beat: reconcile every flow of this host, and send the task to the other hosts."""
    process_liveness.record_process(kind=process_liveness.BEAT, name="beat", pid=0)
    _reconcile_this_host(self)
    hosts = cleanup.hosts_elsewhere()
    _send_to_hosts(hosts)
    cleanup.flag_unserved_flows(hosts=hosts)


@shared_task(name="mirrors.tasks.reconcile_host", bind=True)
def reconcile_host(self: Task) -> None:
    """Sent to this host's queue by a worker of another host."""
    _reconcile_this_host(self)


@shared_task(name="mirrors.tasks.reconcile_flow")
def reconcile_flow(flow_id: int, looks: int = LOOKS) -> None:
    """Sent after a person's change, so that neither the action nor the page waits for beat."""
    reconciler.reconcile(flow_id=flow_id)
    if looks > 1 and not jobs.is_settled(flow_id=flow_id):
        reconcile_flow.apply_async(args=[flow_id, looks - 1], countdown=LOOK_AGAIN_S, expires=10)
    _send_to_hosts(cleanup.hosts_elsewhere(flow_id=flow_id))


@shared_task(name="mirrors.tasks.balance_pools")
def balance_pools() -> None:
    """Sent by beat: continue or begin the move of a flow in each pool of runners."""
    for flow_id in moves.balance_pools(now=timezone.now()):
        reconcile_flow.delay_on_commit(flow_id)


@shared_task(name="mirrors.tasks.show_sign", bind=True)
def show_sign(self: Task) -> None:
    """Also sent by beat: a hanging reconciler must not make beat look dead."""
    process_liveness.record_process(kind=process_liveness.BEAT, name="beat", pid=0)
    process_liveness.record_process(
        kind=process_liveness.WORKER, name=_name(self), pid=os.getppid()
    )


def _reconcile_this_host(task: Any) -> None:
    try:
        process_liveness.record_process(
            kind=process_liveness.RECONCILE_WORKER, name=_name(task), pid=os.getppid()
        )
        reconciler.reconcile()
    except DatabaseError as error:
        # Beat retries in two seconds; a traceback each time would flood the log.
        log.error("reconcile: the database rejects the query: %s", error)


def _name(task: Any) -> str:
    return str(task.request.hostname or "in this process")


def _send_to_hosts(hosts: set[str]) -> None:
    for host in sorted(hosts):
        reconcile_host.apply_async(queue=f"reconcile.{host}", expires=EXPIRES)


@shared_task(name="mirrors.tasks.run_test")
def run_test(test_id: int) -> None:
    clusters.run_test(test_id=test_id)


@shared_task(name="mirrors.tasks.check_clusters")
def check_clusters() -> None:
    send_each(check_cluster, clusters.due_clusters(), queue="collect", expires=9.0)


@shared_task(name="mirrors.tasks.check_cluster")
def check_cluster(cluster_id: int) -> None:
    clusters.check_cluster(cluster_id=cluster_id)


@shared_task(name="mirrors.tasks.sweep_tests")
def sweep_tests() -> None:
    clusters.sweep_tests()


@shared_task(name="mirrors.tasks.run_due_duties")
def run_due_duties() -> None:
    for flow_id, name in scheduler.due_tasks(now=timezone.now()):
        run_duty.apply_async(args=[flow_id, name], queue="default", expires=DUTY_EXPIRES)


@shared_task(name="mirrors.tasks.run_duty")
def run_duty(flow_id: int, name: str) -> None:
    scheduler.run_task(flow_id=flow_id, name=name, now=timezone.now())


@shared_task(name="mirrors.tasks.beat_hearts")
def beat_hearts(until: float | None = None) -> None:
    """Write due heartbeats. Beat calls it rarely to save CPU; it requeues itself in between."""
    again_s = emitter.emit_heartbeats(now=timezone.now()).again_s
    now = timezone.now().timestamp()
    until = until or now + HEARTBEATS_S
    if again_s is not None and now + again_s < until:
        beat_hearts.apply_async(args=[until], countdown=again_s, expires=HEARTBEATS_S)


@shared_task(name="mirrors.tasks.look_at_plan")
def look_at_plan(flow_id: int) -> None:
    plans.plan_on_request(flow_id=flow_id, now=timezone.now())


@shared_task(name="mirrors.tasks.apply_plan")
def apply_plan(flow_id: int) -> None:
    plans.apply_now(flow_id=flow_id, now=timezone.now())


@shared_task(name="mirrors.tasks.compare_schemas")
def compare_schemas(flow_id: int) -> None:
    compare_on_request(flow_id=flow_id, now=timezone.now())


@shared_task(name="mirrors.tasks.fix_drift")
def fix_drift(flow_id: int) -> None:
    drift.fix_drift(flow_id=flow_id, now=timezone.now())


@shared_task(name="mirrors.tasks.refresh_runs")
def refresh_runs() -> None:
    for flow_id in index_refresh.due_flows():
        refresh_runs_of.delay(flow_id)


@shared_task(name="mirrors.tasks.refresh_runs_of", expires=RUNS_EXPIRES)
def refresh_runs_of(flow_id: int) -> None:
    index_refresh.catch_up(flow_id=flow_id)


@shared_task(name="mirrors.tasks.retire_runs")
def retire_runs() -> None:
    for task, due in (
        (retire_runs_of, old_runs.flows_with_old_runs()),
        (retire_blocks_of, current_runs.flows_with_runs()),
        (retire_notes_of, skipped_records.flows_with_notes()),
    ):
        send_each(task, due, queue="collect", expires=RETIRING_EXPIRES)


@shared_task(name="mirrors.tasks.retire_runs_of")
def retire_runs_of(flow_id: int) -> None:
    claim_retention(lambda flow: old_runs.retire_runs(flow=flow), flow_id=flow_id, what="Old runs")


@shared_task(name="mirrors.tasks.retire_blocks_of")
def retire_blocks_of(flow_id: int) -> None:
    claim_retention(
        lambda flow: current_runs.retire_blocks(flow=flow, now=timezone.now()),
        flow_id=flow_id,
        what="Runs before both logs",
    )


@shared_task(name="mirrors.tasks.retire_notes_of")
def retire_notes_of(flow_id: int) -> None:
    claim_retention(
        lambda flow: skipped_records.retire_notes(flow=flow),
        flow_id=flow_id,
        what="Notes of what was left out",
    )


@shared_task(name="mirrors.tasks.prune")
def prune() -> dict[str, int]:
    return retention.prune()


@shared_task(name="mirrors.tasks.run_failover", soft_time_limit=150, time_limit=170)
def run_failover(run_id: int) -> None:
    """A simulation runs to its end; a real run advances until it waits, and is queued again."""
    if is_simulation(run_id=run_id):
        simulator.run_simulation(run_id=run_id)
        return
    turn = advance(run_id=run_id)
    if turn.changed_flow is not None:
        reconcile_flow.delay_on_commit(turn.changed_flow)
    if turn.again_s is not None:
        expires = turn.again_s + EXPIRES
        run_failover.apply_async(args=[run_id], countdown=turn.again_s, expires=expires)


@shared_task(name="mirrors.tasks.lift_fence")
def lift_fence(run_id: int, who: str) -> None:
    fence.lift_fence(run_id=run_id, who=who)


@shared_task(name="mirrors.tasks.count_loss", soft_time_limit=150, time_limit=170)
def count_loss(run_id: int) -> None:
    """Count what an ended failover left on its source, once the source is reachable again."""
    loss_recount.recount(run_id=run_id)


@shared_task(name="mirrors.tasks.sweep_failovers")
def sweep_failovers() -> None:
    now = timezone.now()
    send_each(run_failover, [*waiting_runs(), *due_runs(now=now)])
    send_each(count_loss, loss_recount.due_counts(now=now))
    simulator.delete_orphaned_groups()


@shared_task(name="mirrors.tasks.run_drills")
def run_drills() -> None:
    """Evaluate and certify ended drills, queue due ones, and start queued ones."""
    now = timezone.now()
    runs.judge_ended(now=now)
    issuance.issue_missing(now=now)
    schedules.open_due_runs(now=now)
    runs.begin_waiting(now=now)


@shared_task(name="mirrors.tasks.run_failback", soft_time_limit=270, time_limit=290)
def run_failback(run_id: int) -> None:
    flow = preparation.prepare_failback(run_id=run_id)
    if flow is not None:
        reconcile_flow.delay_on_commit(flow.pk)


@shared_task(name="mirrors.tasks.settle_orphans", soft_time_limit=570, time_limit=590)
def settle_orphans(run_id: int) -> None:
    orphan_resolution.resolve_orphans(run_id=run_id)


@shared_task(name="mirrors.tasks.bring_groups_back", soft_time_limit=90, time_limit=100)
def bring_groups_back(run_id: int, act: bool) -> None:
    groups.run_group_failback(run_id=run_id, act=act)


@shared_task(name="mirrors.tasks.sweep_failbacks")
def sweep_failbacks() -> None:
    send_each(run_failback, waiting_failbacks())
    send_each(settle_orphans, groups.waiting_orphans())
    switchover.begin_simulated()
    switchover.close_switched()


@shared_task(name="mirrors.tasks.seal_audit")
def seal_audit() -> None:
    chain.seal()
    chain.anchor_if_due(now=timezone.now())


@shared_task(name="mirrors.tasks.preview_topics", soft_time_limit=25, time_limit=30)
def preview_topics(preview_id: int) -> None:
    readings.run_preview(preview_id=preview_id)


@shared_task(name="mirrors.tasks.preview_rules", soft_time_limit=50, time_limit=60)
def preview_rules(preview_id: int) -> None:
    _continue_preview(preview_id, transforms.read_records(preview_id=preview_id), 0)


@shared_task(name="mirrors.tasks.evaluate_rules")
def evaluate_rules(preview_id: int) -> None:
    """Sent to the queue of the runner's host, again and again until the runner has answered."""
    _continue_preview(preview_id, transforms.evaluate(preview_id=preview_id), LOOK_AGAIN_S)


def _continue_preview(preview_id: int, host: str, wait_s: float) -> None:
    if host:
        queue = f"reconcile.{host}"
        evaluate_rules.apply_async([preview_id], queue=queue, countdown=wait_s, expires=60)


@shared_task(name="mirrors.tasks.read_topic_configs", soft_time_limit=25, time_limit=30)
def read_topic_configs(reading_id: int) -> None:
    readings.run_configs(reading_id=reading_id)


@shared_task(name="mirrors.tasks.preview_positions", soft_time_limit=110, time_limit=120)
def preview_positions(change_id: int) -> None:
    positions.run_preview(change_id=change_id)


@shared_task(name="mirrors.tasks.apply_positions", soft_time_limit=110, time_limit=120)
def apply_positions(change_id: int) -> None:
    positions.run_apply(change_id=change_id)


@shared_task(name="mirrors.tasks.check_takeover")
def check_takeover(run_id: int, flow_id: int, seconds: int, start: bool, who: str) -> None:
    if takeover.run_check(run_id=run_id, seconds=seconds, start=start, who=who) and start:
        reconcile_flow.delay_on_commit(flow_id)


@shared_task(name="mirrors.tasks.run_comparison", soft_time_limit=150, time_limit=170)
def run_comparison(comparison_id: int) -> None:
    """Run the comparison for some seconds, then requeue it so that other tasks get the worker.

    While a runner reads, the worker of its host looks at the response from time to time.
    """
    more = advance_comparison(comparison_id=comparison_id)
    if more is not None:
        queue = f"reconcile.{more.host}" if more.host else "default"
        run_comparison.apply_async([comparison_id], queue=queue, countdown=more.wait_s)


@shared_task(name="mirrors.tasks.find_conflicts", soft_time_limit=110, time_limit=120)
def find_conflicts(report_id: int) -> None:
    """Sent to the queue of the runner's host, again and again until the runner has answered."""
    if host := advance_report(report_id=report_id):
        queue = f"reconcile.{host}"
        find_conflicts.apply_async([report_id], queue=queue, countdown=1.0, expires=60)


@shared_task(name="mirrors.tasks.sweep_comparisons")
def sweep_comparisons() -> None:
    open_due_comparisons(now=timezone.now())
    send_each(run_comparison, waiting_comparisons())


__all__ = [
    "apply_plan",
    "apply_positions",
    "balance_pools",
    "beat_hearts",
    "bring_groups_back",
    "check_cluster",
    "check_clusters",
    "check_takeover",
    "compare_schemas",
    "count_loss",
    "evaluate_rules",
    "find_conflicts",
    "fix_drift",
    "lift_fence",
    "look_at_plan",
    "preview_positions",
    "preview_rules",
    "preview_topics",
    "prune",
    "read_topic_configs",
    "reconcile",
    "reconcile_flow",
    "reconcile_host",
    "refresh_runs",
    "refresh_runs_of",
    "retire_blocks_of",
    "retire_notes_of",
    "retire_runs",
    "retire_runs_of",
    "run_comparison",
    "run_drills",
    "run_due_duties",
    "run_duty",
    "run_failback",
    "run_failover",
    "run_test",
    "seal_audit",
    "settle_orphans",
    "show_sign",
    "sweep_comparisons",
    "sweep_failbacks",
    "sweep_failovers",
    "sweep_tests",
]

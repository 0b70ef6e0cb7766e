"""What a running flow needs beside the copying: duties, heartbeats, topics, its index of runs."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from mirrors.services import duties, pruning
from mirrors.services.heart import heartbeats
from mirrors.services.offsets import blocks_retiring, catching_up, left_out_retiring, runs_retiring
from mirrors.services.offsets.retiring_turns import take_turn
from mirrors.services.sync import drift, plans
from mirrors.tasks.sending import send_each

DUTY_EXPIRES = 5.0
RUNS_EXPIRES = 5.0
RETIRING_EXPIRES = 3000.0
# So often beat asks for heartbeats.
HEARTS_S = 2.5


@shared_task(name="mirrors.tasks.run_due_duties")
def run_due_duties() -> None:
    for flow_id, name in duties.due_duties(now=timezone.now()):
        run_duty.apply_async(args=[flow_id, name], queue="default", expires=DUTY_EXPIRES)


@shared_task(name="mirrors.tasks.run_duty")
def run_duty(flow_id: int, name: str) -> None:
    duties.run_duty(flow_id=flow_id, name=name, now=timezone.now())


@shared_task(name="mirrors.tasks.beat_hearts")
def beat_hearts(until: float | None = None) -> None:
    """Beat comes rarely, or an idle deployment would spend itself; shorter intervals go on here."""
    again_s = heartbeats.beat(now=timezone.now()).again_s
    now = timezone.now().timestamp()
    until = until or now + HEARTS_S
    if again_s is not None and now + again_s < until:
        beat_hearts.apply_async(args=[until], countdown=again_s, expires=HEARTS_S)


@shared_task(name="mirrors.tasks.look_at_plan")
def look_at_plan(flow_id: int) -> None:
    plans.look_now(flow_id=flow_id, now=timezone.now())


@shared_task(name="mirrors.tasks.apply_plan")
def apply_plan(flow_id: int) -> None:
    plans.apply_now(flow_id=flow_id, now=timezone.now())


@shared_task(name="mirrors.tasks.fix_drift")
def fix_drift(flow_id: int) -> None:
    drift.fix_now(flow_id=flow_id, now=timezone.now())


@shared_task(name="mirrors.tasks.refresh_runs")
def refresh_runs() -> None:
    for flow_id in catching_up.due_flows():
        refresh_runs_of.delay(flow_id)


@shared_task(name="mirrors.tasks.refresh_runs_of", expires=RUNS_EXPIRES)
def refresh_runs_of(flow_id: int) -> None:
    catching_up.catch_up(flow_id=flow_id)


@shared_task(name="mirrors.tasks.retire_runs")
def retire_runs() -> None:
    for task, due in (
        (retire_runs_of, runs_retiring.flows_with_old_runs()),
        (retire_blocks_of, blocks_retiring.flows_with_runs()),
        (retire_notes_of, left_out_retiring.flows_with_notes()),
    ):
        send_each(task, due, queue="collect", expires=RETIRING_EXPIRES)


@shared_task(name="mirrors.tasks.retire_runs_of")
def retire_runs_of(flow_id: int) -> None:
    take_turn(lambda flow: runs_retiring.retire_runs(flow=flow), flow_id=flow_id, what="Old runs")


@shared_task(name="mirrors.tasks.retire_blocks_of")
def retire_blocks_of(flow_id: int) -> None:
    take_turn(
        lambda flow: blocks_retiring.retire_blocks(flow=flow, now=timezone.now()),
        flow_id=flow_id,
        what="Runs before both logs",
    )


@shared_task(name="mirrors.tasks.retire_notes_of")
def retire_notes_of(flow_id: int) -> None:
    take_turn(
        lambda flow: left_out_retiring.retire_notes(flow=flow),
        flow_id=flow_id,
        what="Notes of what was left out",
    )


@shared_task(name="mirrors.tasks.prune")
def prune() -> dict[str, int]:
    return pruning.prune()

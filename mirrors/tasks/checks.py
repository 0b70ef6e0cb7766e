"""What a person asks to have compared: both sides of a flow, or the takeover from MirrorMaker 2."""

from __future__ import annotations

from celery import shared_task

from mirrors.services import takeovers
from mirrors.services.comparing.rows import waiting_comparisons
from mirrors.services.comparing.turn import run_turn
from mirrors.tasks.sending import send_each
from mirrors.tasks.supervision import reconcile_flow


@shared_task(name="mirrors.tasks.check_takeover")
def check_takeover(run_id: int, flow_id: int, seconds: int, start: bool, who: str) -> None:
    if takeovers.run_check(run_id=run_id, seconds=seconds, start=start, who=who) and start:
        reconcile_flow.delay_on_commit(flow_id)


@shared_task(name="mirrors.tasks.run_comparison", soft_time_limit=150, time_limit=170)
def run_comparison(comparison_id: int) -> None:
    """Some seconds of it; then it goes to the end of the queue, so that others have their turn."""
    if run_turn(comparison_id=comparison_id):
        run_comparison.delay(comparison_id)


@shared_task(name="mirrors.tasks.sweep_comparisons")
def sweep_comparisons() -> None:
    send_each(run_comparison, waiting_comparisons())

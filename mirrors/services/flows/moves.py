"""Moves of flows between the runners of a pool: one at a time, prepared, and followed to its end.

- `FlowMove` has at most one open row for each pool (a database constraint).
- The process of the new runner starts while the old one copies (`services.runners.cleanup`).
- Then the flow is given the new runner, and the reconciler moves it as after an edit: the old job
  commits and ends before the new one opens. So a flow is never in two applications. If the old
  process does not respond, the brokers fence it, as after a crash.
- A move that cannot be made ends with the reason, and the flow stays.
"""

from __future__ import annotations

import contextlib
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from mirrors.domain.audit.actors import RECONCILER
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.runners import pools as rules
from mirrors.domain.runners.pools import COPIES_WITHIN, READY_WITHIN, PlannedMove
from mirrors.models import Flow, FlowMove, Job, Runner
from mirrors.models.audit.transitions import note
from mirrors.models.flows import DesiredState, JobState
from mirrors.services.errors import Conflict
from mirrors.services.flows.settings import update_flow
from mirrors.services.runners import pools

_COPIES = frozenset({JobState.RUNNING, JobState.DEGRADED})


def request_next_move(*, pool: str, who: str) -> FlowMove:
    """Begin the first move of the pool's plan. Raises Conflict with the reason if there is none."""
    if pool not in pools.names():
        raise Conflict(f"No runner has the pool {pool}.")
    shown = pools.show_pool(name=pool, now=timezone.now())
    if shown.verdict.state != "due":
        raise Conflict(f"No flow of the pool {pool} moves now. {shown.verdict.reason}")
    return _open(pool, shown.verdict.plan[0], who=who)


def balance_pools(*, now: datetime) -> list[int]:
    """Continue the open move of each pool, or begin the one that is due; flows that changed."""
    changed = []
    for name in pools.names():
        # Another worker began a move meanwhile.
        with contextlib.suppress(Conflict):
            changed.append(_balance(name, now))
    return [flow for flow in changed if flow is not None]


def _balance(pool: str, now: datetime) -> int | None:
    rows = FlowMove._base_manager.select_related("flow__source", "flow__target", "flow__runner")
    move = rows.filter(pool=pool, ended_at=None).first()
    if move is not None:
        if move.moved_at is None:
            return _give(move, now)
        _follow(move, now)
        return None
    facts = pools.facts_of(name=pool, now=now)
    known = {runner.name: runner for runner in facts.runners}
    for load in rules.loads_of(facts.runners, facts.flows):
        since = rules.next_uneven_since(known[load.runner], load, now)
        if since != known[load.runner].uneven_since:
            Runner._base_manager.filter(name=load.runner).update(uneven_since=since)
    due = pools.automatic_move(facts, under_way=None, now=now).move
    if due is not None:
        _open(pool, due, who=RECONCILER)
    return None


def _open(pool: str, planned: PlannedMove, *, who: str) -> FlowMove:
    try:
        with transaction.atomic():
            flow = Flow._base_manager.select_related("source", "target").get(pk=planned.flow)
            move = FlowMove.objects.create(
                flow=flow,
                pool=pool,
                before=planned.before,
                to=planned.to,
                reason=planned.reason,
                requested_by=who[:150],
                requested_at=timezone.now(),
            )
            words = f"{planned.before} → {planned.to}. {planned.reason}"
            note(flow, what="move requested", who=who, why=words)
    except IntegrityError:
        raise Conflict(
            f"Another flow of the pool {pool} moves now. Wait until it copies."
        ) from None
    return move


def _give(move: FlowMove, now: datetime) -> int | None:
    """Give the flow its new runner when that one's process is ready; the flow if it was given."""
    target = Runner._base_manager.filter(name=move.to).first()
    if why := _why_it_stays(move, target, now):
        _end(move, now, why)
        return None
    if target is None or not target.health(now).is_healthy:
        return None
    who = RECONCILER if move.requested_by == RECONCILER else move.requested_by
    try:
        with transaction.atomic():
            update_flow(flow=move.flow, runner=target, who=who, why=move.reason)
            move.moved_at = now
            move.save(update_fields=["moved_at"])
    except UnderstudyError as error:
        _end(move, now, f"It stays on {move.before}. {error.message}")
        return None
    return move.flow_id


def _why_it_stays(move: FlowMove, target: Runner | None, now: datetime) -> str:
    """Why the flow is not given its new runner; empty while it may be."""
    flow = move.flow
    if flow.runner.name != move.before:
        return f"A person gave it the runner {flow.runner.name} meanwhile."
    if flow.desired_state != DesiredState.RUNNING:
        return f"It is {flow.desired_state}, so it stays on {move.before}."
    if target is None:
        return f"{move.to} was deleted, so it stays on {move.before}."
    health = target.health(now)
    if health.is_healthy or now - move.requested_at <= READY_WITHIN:
        return ""
    why = f"{move.to} was not ready within two minutes, so it stays on {move.before}."
    return f"{why} {health.reason}".strip()


def _follow(move: FlowMove, now: datetime) -> None:
    """End the move when the flow copies on its new runner, or does not in time."""
    flow = move.flow
    if flow.runner.name != move.to:
        _end(move, now, f"A person gave it the runner {flow.runner.name} meanwhile.")
        return
    if flow.desired_state != DesiredState.RUNNING:
        _end(move, now, f"It was given {move.to}, and is {flow.desired_state} now.")
        return
    jobs = list(Job._base_manager.filter(flow=flow).select_related("runner").order_by("-id")[:2])
    here = next((job for job in jobs if job.ended_at is None), None)
    if here is not None and here.runner == flow.runner and here.state in _COPIES:
        before = next((job.ended_at for job in jobs if job.ended_at is not None), None)
        pause = "" if before is None else f" after a pause of {_seconds(here.since, before)} s"
        _end(move, now, f"It copies on {move.to}{pause}.", succeeded=True)
    elif move.moved_at is not None and now - move.moved_at > COPIES_WITHIN:
        why = f"It does not copy on {move.to} after five minutes."
        _end(move, now, f"{why} {flow.reason}".strip())


def _seconds(later: datetime, earlier: datetime) -> int:
    return max(0, round((later - earlier).total_seconds()))


def _end(move: FlowMove, now: datetime, outcome: str, *, succeeded: bool = False) -> None:
    ended = {"ended_at": now, "outcome": outcome, "succeeded": succeeded}
    if FlowMove._base_manager.filter(pk=move.pk, ended_at=None).update(**ended):
        what = "moved" if succeeded else "not moved"
        note(move.flow, what=what, who=RECONCILER, why=outcome)

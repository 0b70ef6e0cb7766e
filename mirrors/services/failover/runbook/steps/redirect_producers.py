"""Step redirect_producers: lifts an earlier run's fence on the target, then calls the hook.

By then the source is fenced and drained, so producers cannot write too early. An abort directs them
back first, then creates the fence again.
"""

from __future__ import annotations

import dataclasses

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.runbook.state_machine import Outcome
from mirrors.domain.settings.failover import PRODUCERS
from mirrors.kafka.admin.client_fence import CLIENT_ID, ClientFence
from mirrors.models import FailoverStep
from mirrors.services.failover.runbook.context import Context, Handler
from mirrors.services.failover.runbook.steps.fence import (
    DEADLINE_S,
    delete_fence_acls,
    remaining_fences,
    restore_fence,
)
from mirrors.services.failover.runbook.steps.hooks import hook

_HOOK = hook(PRODUCERS)


def _fences(context: Context) -> list[FailoverStep]:
    """Fences on the target. One application lifts only those that are on its topics alone."""
    flow = context.flow
    found = remaining_fences(source_id=flow.target_id, target_id=flow.source_id)
    if context.scope is None:
        return found
    rows = context.plan["partitions"]
    names = {row["topic"] for row in rows} | {row["remote_topic"] for row in rows}
    return [step for step in found if {rule["name"] for rule in step.result["rules"]} <= names]


def irremovable_fence(context: Context) -> str:
    """Why an earlier run's fence on the target could not be lifted later; empty without such a
    fence, or when its ACLs can be read."""
    found = _fences(context)
    if not found:
        return ""
    runs = ", ".join(str(step.run_id) for step in found)
    words = f"The fence that run {runs} left on {context.spec.target.alias} cannot be lifted:"
    try:
        with ClientFence(context.spec.target, client_id=CLIENT_ID) as fence:
            there = fence.rules(deadline_s=DEADLINE_S)
    except UnderstudyError as error:
        return f"{words} {error.message}"
    return f"{words} the cluster no longer has an authorizer." if there is None else ""


def _act(context: Context) -> Outcome | None:
    opened = _open(context)
    outcome = _HOOK.act(context)
    if outcome is None or not opened:
        return outcome
    return dataclasses.replace(outcome, words=f"{opened} {outcome.words}")


def _open(context: Context) -> str:
    """Delete ACLs that runs in the other direction left on the target; each is stored first."""
    found = _fences(context)
    for step in found:
        lifted = {*context.row.result.get("lifted", []), step.pk}
        context.keep(lifted=sorted(lifted))
        context.alive()
        delete_fence_acls(step=step, who=context.run.requested_by)
    if not found:
        return ""
    runs = ", ".join(str(step.run_id) for step in found)
    return f"The fence of run {runs} on {context.spec.target.alias} was lifted."


def _undo(context: Context) -> str:
    words = _HOOK.undo(context)
    lifted = FailoverStep.objects.filter(
        pk__in=context.row.result.get("lifted", []), undone_at__isnull=False
    )
    for step in lifted.select_related("run__flow__source"):
        context.alive()
        restore_fence(step=step)
        words += f" {context.spec.target.alias} is fenced again, as run {step.run_id} left it."
    return words


REDIRECT_PRODUCERS = Handler(act=_act, wait=_HOOK.wait, undo=_undo)

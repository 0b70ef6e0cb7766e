"""ACL previews: a flow creates ACLs only after a person has seen which ones it would create."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.acls import (
    UNREAD_RULES,
    approved_settings,
    sentences_with,
    why_acls_wait,
)
from mirrors.models import AclPreview, Flow, FlowPlan
from mirrors.models.audit.transitions import note
from mirrors.services.errors import Conflict


def why_task_waits(flow: Flow, spec: FlowSpec) -> str:
    """Why the sync task `topic acls` may not start; empty when it may, or is disabled."""
    if not spec.settings.sync_topic_acls_enabled:
        return ""
    # Joined where many flows are read; a flow without a preview has no such attribute.
    row: AclPreview | None = getattr(flow, "acl_preview", None)
    seen = None if row is None else row.shape
    return why_acls_wait(spec.settings, seen)


def why_flow_waits(flow: Flow) -> str:
    """The same for a page, also where the settings are invalid."""
    try:
        return why_task_waits(flow, flow.spec)
    except InvalidSettings:
        return ""


def approve_acls(*, flow: Flow, digest: str, who: str, now: datetime) -> AclPreview:
    """A person has read the plan of this digest: the sync task may create such ACLs from now on."""
    with transaction.atomic():
        plan = FlowPlan.objects.select_for_update().filter(flow=flow).first()
        if plan is None or plan.as_of is None:
            raise Conflict(f"{flow.name} has no plan yet. Request one first.")
        if plan.digest != digest:
            raise Conflict(
                f"The plan of {flow.name} is outdated: its clusters or settings changed since. "
                "Read the new one first.",
                code="stale",
            )
        if (unread := _unread(plan)) is not None:
            raise Conflict(f"There are no ACLs in this plan to review. {unread}")
        row = _note_seen(flow, plan, who, now)
        note(
            flow,
            what="access rules seen",
            who=who,
            why=f"ACLs are synchronized, as of plan {digest[:12]}.",
        )
    return row


def record_read(*, flow: Flow, plan: FlowPlan, who: str, now: datetime) -> None:
    """A person who applies a plan has read the ACLs in it."""
    if _unread(plan) is None:
        _note_seen(flow, plan, who, now)


def _unread(plan: FlowPlan) -> str | None:
    """The sentence of a plan that could not read the ACLs."""
    return next(iter(sentences_with(UNREAD_RULES, plan.left_out, plan.codes)), None)


def _note_seen(flow: Flow, plan: FlowPlan, who: str, now: datetime) -> AclPreview:
    shape = approved_settings(flow.spec.settings)
    seen = {"shape": shape, "digest": plan.digest, "who": who[:150], "at": now}
    row, _ = AclPreview.objects.update_or_create(flow=flow, defaults=seen)
    return row

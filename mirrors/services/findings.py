"""Decisions of people on findings: data loss, drift, orphans.

A decision is one transaction: it locks the flow and the findings, checks what the person saw,
stores who decided and why, and writes the audit log of the flow. Of two concurrent
decisions, the first one is stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django.db import transaction

from mirrors.models import Flow, claim
from mirrors.models.audit.transitions import note
from mirrors.models.base import Decision
from mirrors.services.errors import Conflict

Finding = TypeVar("Finding", bound=Decision)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """What a person chose. `shown` identifies the facts that the person saw; empty for any."""

    name: str
    who: str
    why: str
    now: datetime
    shown: str = ""

    def check_shown(self, digest: str, refusal: str) -> None:
        """Conflict when the facts have changed since."""
        if self.shown and self.shown != digest:
            raise Conflict(refusal, code="stale")


def decide(
    findings: Sequence[Finding],
    choice: Choice,
    *,
    flow_id: int,
    kind: str,
    state: str | None,
    check: Callable[[Finding], None],
    reason: Callable[[Finding], str],
    summary: Callable[[Sequence[Finding]], str],
    **changes: Any,
) -> list[Finding]:
    """Store the decision on findings of one model; returns their current rows.

    - `kind` and the choice name the entry in the flow's audit log, `summary` is its text.
    - `state` is the state after the decision; None records the decision and changes no state.
    - `check` refuses a finding, under its lock. `reason` is the finding's next reason.
    """
    rows = type(findings[0])._default_manager
    keys = [finding.pk for finding in findings]
    said = {"decided_by": choice.who[:150], "decided_at": choice.now, "decided_why": choice.why}
    with transaction.atomic():
        flow = Flow.objects.select_for_update(of=("self",)).get(pk=flow_id)
        locked = list(rows.select_for_update(of=("self",)).filter(pk__in=keys).order_by("pk"))
        for row in locked:
            check(row)
        for row in locked:
            one = rows.filter(pk=row.pk)
            if state is None:
                one.update(**said, **changes)
            else:
                claim(one, state=state, reason=reason(row), who=choice.who, changes=said | changes)
        note(flow, what=f"{kind}: {choice.name}", who=choice.who, why=summary(locked))
    return list(rows.filter(pk__in=keys).order_by("pk"))

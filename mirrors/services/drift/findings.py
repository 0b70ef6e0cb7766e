"""Rows of drift: differences that somebody made on the target, and their decisions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from mirrors.domain.audit.actors import DUTY
from mirrors.domain.topics.drift import Deviation, DriftDecision, DriftKey, Finding
from mirrors.models import Drift, Flow
from mirrors.models.audit.transitions import note
from mirrors.models.base import move
from mirrors.models.drift import DriftState
from mirrors.services.clock import milliseconds

Ruled = Mapping[DriftKey, tuple[Deviation, DriftDecision]]


def digest_of(*parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def findings_of(flow_id: int) -> dict[DriftKey, Finding]:
    """Findings that are not closed."""
    rows = Drift.objects.filter(flow=flow_id, closed_at=None).order_by()
    return {
        (row.kind, row.name, row.key): Finding(
            state=row.state,
            found=row.found,
            opened_at=milliseconds(row.opened_at),
            expires_at=None if row.expires_at is None else milliseconds(row.expires_at),
            who=row.decided_by,
            why=row.decided_why,
        )
        for row in rows
    }


def store_findings(
    flow_id: int,
    ruled: Ruled,
    *,
    kinds: Collection[str],
    put_back: Collection[DriftKey],
    now: datetime,
) -> None:
    """Open, renew and close findings of these kinds; a value that was put back is closed."""
    rows = Drift.objects.filter(flow=flow_id, closed_at=None, kind__in=kinds)
    if not ruled and not rows.exists():
        return
    with transaction.atomic():
        flow = Flow.objects.select_for_update(of=("self",)).filter(pk=flow_id).first()
        if flow is None:
            return
        known: dict[DriftKey, Drift] = {(row.kind, row.name, row.key): row for row in rows}
        for key, (deviation, ruling) in ruled.items():
            row = known.get(key) or _opened(flow, deviation, ruling, now)
            _renew(row, deviation, ruling, now)
            if key in put_back:
                _close(flow, row, DriftState.FIXED, "It was reverted to the flow's value.", now)
        for key, row in known.items():
            if key not in ruled:
                _close(
                    flow, row, DriftState.CLOSED, "The target has the source's value again.", now
                )


def _opened(flow: Flow, deviation: Deviation, ruling: DriftDecision, now: datetime) -> Drift:
    row = Drift.objects.create(
        flow=flow,
        kind=deviation.kind,
        name=deviation.name,
        key=deviation.key,
        place=digest_of(*deviation.drift_key),
        expected=deviation.expected,
        found=deviation.found,
        wanted=deviation.wanted,
        reason=ruling.reason,
        opened_at=now,
        seen_at=now,
    )
    note(flow, what="drift: found", who=DUTY, why=deviation.sentence)
    return row


def _renew(row: Drift, deviation: Deviation, ruling: DriftDecision, now: datetime) -> None:
    """A finding whose decision no longer applies to its value is open again."""
    row.wanted, row.reason, row.seen_at = deviation.wanted, ruling.reason, now
    if not ruling.decided and row.state in (DriftState.ACCEPTED, DriftState.IGNORED):
        move(row, DriftState.OPEN)
        row.expires_at = None
    if ruling.is_new:
        row.opened_at = now
    row.found = deviation.found
    row.save()


def _close(flow: Flow, row: Drift, state: DriftState, why: str, now: datetime) -> None:
    move(row, state)
    row.closed_at, row.closed_why = now, why
    row.save(update_fields=["state", "closed_at", "closed_why"])
    note(flow, what=f"drift: {state}", who=row.decided_by or DUTY, why=f"{row}: {why}")

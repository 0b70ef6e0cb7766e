"""Objectives of flows: set by people, read by drills and the readiness score."""

from __future__ import annotations

import dataclasses

from django.db import transaction
from django.utils import timezone

from mirrors.domain.drills.objectives import Objectives
from mirrors.models import Flow, FlowObjectives
from mirrors.models.audit.transitions import note


def objectives_of(*, flow: Flow) -> FlowObjectives:
    return FlowObjectives.objects.filter(flow=flow).first() or FlowObjectives(flow=flow)


def set_objectives(*, flow: Flow, wanted: Objectives, who: str) -> FlowObjectives:
    """Set all three; None removes an objective."""
    wanted.check()
    with transaction.atomic():
        row = FlowObjectives.objects.select_for_update().filter(flow=flow).first()
        before = Objectives() if row is None else row.spec
        if before == wanted:
            return row or FlowObjectives(flow=flow)
        facts = {**dataclasses.asdict(wanted), "set_by": who[:150], "set_at": timezone.now()}
        row, _ = FlowObjectives.objects.update_or_create(flow=flow, defaults=facts)
        why = f"Objectives changed from {_sentence(before)} to {_sentence(wanted)}."
        note(flow, what="objectives", who=who, why=why)
    return row


def _sentence(wanted: Objectives) -> str:
    parts = [
        f"{name} {value:,} {unit}"
        for name, value, unit in (
            ("RPO", wanted.rpo_seconds, "s"),
            ("RPO", wanted.rpo_records, "records"),
            ("RTO", wanted.rto_seconds, "s"),
        )
        if value is not None
    ]
    return ", ".join(parts) or "none"

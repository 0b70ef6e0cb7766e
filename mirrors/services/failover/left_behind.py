"""Decisions to leave a topic or partition behind in a failover: make, withdraw, list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import cast

from django.db import transaction

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.failover.left_behind import LeftBehind as Decision
from mirrors.domain.gaps.accepted_losses import (
    AcceptedLoss,
    AppliedDecision,
    accepted_losses,
    skipped_by_move,
)
from mirrors.domain.patterns.renames import LONGEST_NAME
from mirrors.domain.topics.positions import PositionMove
from mirrors.models import Flow, LeftBehind, PositionChange
from mirrors.models.audit.transitions import note
from mirrors.models.failover import WHOLE_TOPIC
from mirrors.services.clock import milliseconds
from mirrors.services.errors import Conflict
from mirrors.services.gaps.lost_ranges import applied_decisions_of
from mirrors.services.run_lifecycle import single_open_run

_TOPIC = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}")
LONGEST_REASON = 500
MOST_PARTITIONS = 1 << 31


def decide(
    *, flow: Flow, topic: str, partition: int | None, reason: str, who: str, now: datetime
) -> LeftBehind:
    """Failovers of this flow exclude the topic or partition, and name the decision.

    Conflict when it is left behind already.
    """
    errors: dict[str, list[str]] = {}
    if _TOPIC.fullmatch(topic) is None:
        errors["topic"] = ["Enter the name of a topic of the source."]
    if partition is not None and not 0 <= partition < MOST_PARTITIONS:
        errors["partition"] = ["Enter a partition number, or leave it empty for the whole topic."]
    if not reason.strip():
        errors["reason"] = ["Give a reason: every run, certificate and script names it."]
    if errors:
        raise InvalidSettings(errors)
    row = LeftBehind(
        flow=flow,
        topic=topic,
        partition=WHOLE_TOPIC if partition is None else partition,
        reason=reason.strip()[:LONGEST_REASON],
        decided_by=who,
        decided_at=now,
    )
    with single_open_run(f"{row} of {flow.name} is already left behind."):
        row.save()
        note(flow, what="left behind", who=who, why=f"{row}: {row.reason}")
    return row


def withdraw(*, row: LeftBehind, why: str, who: str, now: datetime) -> LeftBehind:
    """The next failover includes it again. The row stays, because runs refer to it."""
    with transaction.atomic():
        mine = LeftBehind.objects.filter(pk=row.pk, withdrawn_at=None)
        words = why.strip()[:LONGEST_REASON]
        if not mine.update(withdrawn_at=now, withdrawn_by=who, withdrawn_why=words):
            raise Conflict(f"The decision about {row} was already withdrawn.")
        note(row.flow, what="not left behind", who=who, why=f"{row}: {words}".rstrip(": "))
    row.refresh_from_db()
    return row


def accepted_losses_of(flow: Flow) -> tuple[AcceptedLoss, ...]:
    """What the target lacks by decisions on gaps, and by positions that were moved forward."""
    decisions = [*applied_decisions_of(flow=flow), *_moves(flow)]
    return tuple(accepted_losses(sorted(decisions, key=lambda decision: decision.at)))


def _moves(flow: Flow) -> Iterator[AppliedDecision]:
    """A move back to the first record copies everything again; another one not all."""
    for change in PositionChange.objects.filter(flow=flow, applied_at__isnull=False):
        for row in change.moves:
            move = PositionMove.from_dict(row)
            if move.to is None or (move.to < move.position and move.to > (move.first or 0)):
                continue
            yield AppliedDecision(
                topic=move.topic,
                partition=move.partition,
                choice="accept" if move.effect == "skipped" else "restart",
                facts=skipped_by_move(move.position, move.to),
                who=change.applied_by,
                why=change.why,
                at=milliseconds(cast("datetime", change.applied_at)),
            )


def decisions_of(flow: Flow) -> tuple[Decision, ...]:
    """Decisions that are not withdrawn."""
    rows = LeftBehind.objects.filter(flow=flow, withdrawn_at=None).order_by("topic", "partition")
    return tuple(row.decision for row in rows)

"""Gaps (data loss) as rows: opened and closed by the runner's status, decided on by people.

A decision is valid for the facts that its row showed. When the runner reports other facts, the row
opens again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, cast

from django.db import transaction
from django.db.models import F

from mirrors.domain.audit.actors import RUNNER
from mirrors.domain.gaps.accepted_losses import AppliedDecision
from mirrors.domain.gaps.lost_ranges import UNCOPYABLE, Decision, GapFacts
from mirrors.domain.gaps.lost_ranges import Choice as GapChoice
from mirrors.domain.runners.job_files import JobStatus, PartitionStatus
from mirrors.models import Flow, Gap, claim
from mirrors.models.audit.transitions import note, record
from mirrors.models.gaps import GapKind, GapState
from mirrors.services import findings
from mirrors.services.clock import milliseconds
from mirrors.services.errors import Conflict
from mirrors.services.findings import Choice
from mirrors.services.offsets.reverse_translation import upstream_span
from mirrors.services.run_lifecycle import send_on_commit

STOP = "stop"
_INDEX_KNOWS_AFTER = timedelta(minutes=1)
_CHOICES = {"accept": GapState.ACCEPTED, "restart": GapState.RESTARTED}


def store_gaps(*, flow: Flow, status: JobStatus, now: datetime) -> None:
    """Make the open gaps those that the runner reports; others close automatically."""
    known = {(gap.topic, gap.partition): gap for gap in _open(flow)}
    if not known and not any(row.gap for row in status.partitions):
        return
    seen = {(row.topic, row.partition): row for row in status.partitions}
    for tp, row in seen.items():
        if row.gap is not None:
            _take(flow, known.get(tp), row, row.gap, now)
    for tp, gap in known.items():
        found = seen.get(tp)
        # Before its plan is complete, a runner reports no partition.
        if status.topics and (found is None or _is_over(gap, found)):
            _close(flow, gap, found, now)


def decide(*, gap: Gap, choice: str, who: str, why: str, shown: str, now: datetime) -> Gap:
    """`stop` changes nothing and is recorded; `shown` is the digest of the facts decided on."""
    chosen = Choice(name=choice, who=who, why=why, now=now, shown=shown)
    with transaction.atomic():
        (decided,) = findings.decide(
            [gap],
            chosen,
            flow_id=gap.flow_id,
            kind="gap",
            state=_CHOICES.get(choice),
            check=lambda row: _check(row, chosen),
            reason=lambda row: row.reason,
            summary=lambda rows: f"{rows[0]}: {describe(facts_of(rows[0]))} {why}".strip(),
        )
        if choice != STOP:
            # The runner reads a decision like an edit, but nothing restarts.
            Flow.objects.filter(pk=gap.flow_id).update(generation=F("generation") + 1)
        send_on_commit("mirrors.tasks.reconcile_flow", gap.flow_id)
    return decided


def decisions_of(*, flow: Flow) -> tuple[Decision, ...]:
    """Decisions that the runner must apply to gaps that still exist."""
    choices = {str(state): choice for choice, state in _CHOICES.items()}
    rows = _open(flow).filter(state__in=choices).order_by("pk")
    return tuple(
        Decision(
            topic=row.topic,
            partition=row.partition,
            choice=cast("GapChoice", choices[row.state]),
            facts=facts_of(row),
        )
        for row in rows
    )


def applied_decisions_of(*, flow: Flow) -> Iterator[AppliedDecision]:
    """Decisions that the runner has applied, in that order."""
    choices = {str(state): choice for choice, state in _CHOICES.items()}
    rows = Gap.objects.filter(flow=flow, state__in=choices, closed_at__isnull=False)
    for row in rows.exclude(facts={}).order_by("closed_at", "pk"):
        yield AppliedDecision(
            topic=row.topic,
            partition=row.partition,
            choice=cast("GapChoice", choices[row.state]),
            facts=facts_of(row),
            who=row.decided_by,
            why=row.decided_why,
            at=milliseconds(cast("datetime", row.closed_at)),
        )


def facts_of(gap: Gap) -> GapFacts:
    return GapFacts(**gap.facts)


def digest_of(gap: Gap) -> str:
    """Identifies the facts that a person sees, without the source's end, which moves."""
    # A row of an earlier version lacks numbers that do not apply to it.
    facts = {field.name: gap.facts.get(field.name) for field in dataclasses.fields(GapFacts)}
    facts["end"] = facts["end"] if gap.kind == "truncated" else None
    text = json.dumps([gap.topic, gap.partition, facts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def remote_offsets(gap: Gap) -> tuple[int | None, int | None]:
    """First and last offset of the remote topic that others wrote, that it lost, or that hold
    copies without a position; else None."""
    if gap.kind == GapKind.REMOTE_WRITTEN:
        return gap.facts["position"], gap.facts["end"] - 1
    if gap.kind not in (GapKind.REMOTE_TRUNCATED, GapKind.POSITIONS_LOST):
        return None, None
    facts = facts_of(gap)
    return facts.lost_there or facts.copied_there or (None, None)


def describe(facts: GapFacts) -> str:
    kind, lost = facts.kind.replace("_", " "), facts.lost or facts.lost_there or facts.copied_there
    if lost is None:
        return f"{kind} at position {facts.position}."
    where = "" if facts.lost else " of the remote partition"
    return f"{kind}: offsets {lost[0]} to {lost[1]}{where}, {facts.count} in total."


def _open(flow: Flow) -> Any:
    return Gap.objects.filter(flow=flow, closed_at=None)


def _check(gap: Gap, chosen: Choice) -> None:
    choice = chosen.name
    if gap.closed_at is not None or gap.state != GapState.OPEN:
        raise Conflict(
            f"The gap of {gap} is {gap.state}; no decision is needed any more.", code="decided"
        )
    changed = f"The numbers of the gap of {gap} changed: {describe(facts_of(gap))} Check them and "
    chosen.check_shown(digest_of(gap), f"{changed}decide again.")
    facts = facts_of(gap)
    if choice == STOP:
        return
    if choice == "restart" and facts.kind in UNCOPYABLE:
        raise Conflict(
            f"A restart of {gap} would reach the same records again. Choose accept, which skips "
            "them, or stop, which waits until the target accepts them.",
            code="in_the_way",
        )
    at = facts.first if choice == "restart" else facts.accepted_at
    if facts.first is None and facts.kind not in UNCOPYABLE:
        raise Conflict(
            f"The offsets that the source still holds of {gap} are not known yet, so the resume "
            "offset is unknown. Try again when the source responds.",
            code="unknown",
        )
    if at is None:
        raise Conflict(
            f"The first offset at which {gap} differs from what was replicated is unknown, so "
            "the resume offset is unknown. Choose restart, or stop.",
            code="unknown",
        )


def _take(
    flow: Flow, gap: Gap | None, row: PartitionStatus, facts: GapFacts, now: datetime
) -> None:
    if gap is not None and gap.kind in UNCOPYABLE and facts.position > cast("int", gap.position):
        # That gap was passed between two reports, and this is another one.
        _close(flow, gap, row, now)
        gap = None
    if gap is not None:
        facts = _completed(facts, facts_of(gap))
    lost = facts.lost or _copies_lost(flow, gap, row, facts, now) or (None, None)
    values = {
        "kind": facts.kind,
        "reason": row.reason,
        "position": facts.position,
        "first_available": facts.first,
        "source_end": facts.end,
        "first_lost": lost[0],
        "last_lost": lost[1],
        "count": facts.count,
        "facts": dataclasses.asdict(facts),
        "seen_at": now,
    }
    if gap is None:
        gap = Gap.objects.create(
            flow=flow, topic=row.topic, partition=row.partition, opened_at=now, **values
        )
        record(gap, field="state", before="", who=RUNNER, why=row.reason)
        note(flow, what="gap: opened", who=RUNNER, why=f"{gap}: {describe(facts)}")
        return
    same = gap.facts == values["facts"] and gap.reason == row.reason
    if same and (gap.first_lost, gap.last_lost) == lost:
        return
    before = digest_of(gap)
    gap.facts, gap.kind = dataclasses.asdict(facts), facts.kind
    if gap.state != GapState.OPEN and digest_of(gap) != before:
        why = f"The numbers changed before the decision was applied: {describe(facts)}"
        claim(Gap.objects.filter(pk=gap.pk), state=GapState.OPEN, reason=why, who=RUNNER)
        note(flow, what="gap: open again", who=RUNNER, why=f"{gap}: {why}")
    Gap.objects.filter(pk=gap.pk).update(**values)


def _is_over(gap: Gap, row: PartitionStatus) -> bool:
    if row.gap is None and gap.kind in UNCOPYABLE:
        # The runner retries it, and during a retry nothing is known.
        return row.position is not None and row.position > cast("int", gap.position)
    # A lane's verdict has no numbers yet.
    return row.gap is None and row.state != "gap"


def _completed(facts: GapFacts, before: GapFacts) -> GapFacts:
    """While the source does not respond, its offsets keep their last values: a decision remains
    valid."""
    if facts.first is not None:
        return facts
    end = before.end if facts.end is None else facts.end
    asked = dataclasses.replace(facts, first=before.first, end=end)
    return before if asked == before else facts


def _copies_lost(
    flow: Flow, gap: Gap | None, row: PartitionStatus, facts: GapFacts, now: datetime
) -> tuple[int | None, int | None] | None:
    """First and last source offset whose copies or positions the target lost, as far as the map
    knows them.

    The index is seconds behind the runner, so it is asked again for a minute.
    """
    there = facts.lost_there or facts.copied_there
    if there is None:
        return None
    known = None
    if gap is not None and gap.kind == facts.kind:
        known = gap.first_lost, gap.last_lost
        if gap.opened_at < now - _INDEX_KNOWS_AFTER:
            return known
    tp = row.topic, row.partition
    return upstream_span(flow, tp, there[0], there[1] + 1) or known


def _close(flow: Flow, gap: Gap, row: PartitionStatus | None, now: datetime) -> None:
    if row is None:
        why = "The flow no longer replicates this partition."
    elif gap.state == GapState.OPEN:
        why = (
            "It was replicated since."
            if gap.kind in UNCOPYABLE
            else "The runner can read from the position again."
        )
    elif gap.kind in UNCOPYABLE:
        why = f"Replication continued after it, as {gap.decided_by} decided."
    else:
        why = f"Replication continued, as {gap.decided_by} decided."
    ends = gap.state if gap.state != GapState.OPEN and row is not None else GapState.CLOSED
    changes = {"closed_at": now, "closed_why": why}
    if claim(
        Gap.objects.filter(pk=gap.pk, closed_at=None, state=gap.state),
        state=ends,
        reason=gap.reason,
        who=RUNNER,
        changes=changes,
    ):
        note(flow, what="gap: closed", who=RUNNER, why=f"{gap}: {why}")

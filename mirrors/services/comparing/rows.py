"""Comparisons as rows: ask for one, take a turn of it, say how far it is, end it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db.models import F
from django.utils import timezone

from mirrors.domain.errors import InvalidSettings
from mirrors.models import Comparison, Flow, claim
from mirrors.models.comparisons import OPEN_COMPARISONS, ComparisonState
from mirrors.models.transitions import record
from mirrors.services.errors import Conflict
from mirrors.services.work import ASK_AGAIN_AFTER, WORKER, one_open

MOST_TOPICS = 500
SECONDS, MEGABYTES, RECORDS = 120, 512, 50_000
MOST_SECONDS, MOST_MEGABYTES = 3600, 102_400
# A worker says something every second or so; the longest it is mute are some calls' deadlines.
LOST_AFTER = timedelta(seconds=90)
_MOST_LOST = 3


def request_comparison(
    *,
    flow: Flow,
    who: str,
    topics: Iterable[str] = (),
    content: bool = True,
    records: int | None = RECORDS,
    seconds: int = SECONDS,
    megabytes: int = MEGABYTES,
    why: str = "",
) -> Comparison:
    """Write the row that a worker takes; the caller enqueues on commit. One at a time a flow."""
    chosen = sorted(set(topics))
    if len(chosen) > MOST_TOPICS:
        sentence = f"{len(chosen)} topics are more than the {MOST_TOPICS} that one run takes."
        raise InvalidSettings({"topics": [sentence]})
    with one_open(f"A comparison of {flow.name} runs already. Wait for its end, or abort it."):
        run = Comparison.objects.create(
            flow=flow,
            topics=chosen,
            content=content,
            records=records,
            seconds=seconds,
            megabytes=megabytes,
            why=why,
            requested_by=who,
            reason="Waiting for a worker.",
        )
        record(run, field="state", before="", who=who, why=why or f"For {flow.name}.")
    return run


def abort_comparison(*, run: Comparison, who: str, why: str = "") -> Comparison:
    """One that waits ends at once; one that runs within seconds, and keeps what it has found."""
    queued = Comparison.objects.filter(pk=run.pk, state=ComparisonState.QUEUED)
    changes = {"ended_at": timezone.now(), "abort_asked_by": who}
    reason = why or f"Aborted by {who}."
    if not claim(
        queued, state=ComparisonState.ABORTED, reason=reason, who=who, changes=changes
    ) and not Comparison.objects.filter(pk=run.pk, ended_at=None).update(abort_asked_by=who):
        raise Conflict("This comparison has ended already; there is nothing to abort.")
    run.refresh_from_db()
    return run


def take_turn(*, comparison_id: int) -> Comparison | None:
    """The comparison for its one worker, or None when another has it, or another one runs."""
    rows = Comparison.objects.filter(pk=comparison_id, state__in=OPEN_COMPARISONS)
    run = rows.select_related("flow__source", "flow__target").first()
    now = timezone.now()
    if run is None:
        return None
    if run.state == ComparisonState.RUNNING:
        rests = rows.filter(rests=True, turn=run.turn)
        if not rests.update(rests=False, turn=F("turn") + 1, seen_at=now):
            return None
    else:
        other = Comparison.objects.filter(state=ComparisonState.RUNNING).first()
        if other is not None:
            rows.update(reason=f"It waits for comparison {other.pk} of {other.flow.name} to end.")
            return None
        changes = {"started_at": now, "seen_at": now, "turn": 1}
        why = "A worker asks both clusters."
        queued = rows.filter(state=ComparisonState.QUEUED)
        if not claim(
            queued, state=ComparisonState.RUNNING, reason=why, who=WORKER, changes=changes
        ):
            return None
    run.refresh_from_db()
    return run


def note_progress(*, run: Comparison, **known: Any) -> str:
    """Say that the worker lives and how far it is; why it must stop, or nothing."""
    rows = Comparison.objects.filter(pk=run.pk, state=ComparisonState.RUNNING, turn=run.turn)
    if not rows.update(seen_at=timezone.now(), **known):
        return "The comparison was ended by others."
    asked = rows.values_list("abort_asked_by", flat=True).first()
    return f"Aborted by {asked}." if asked else ""


def rest(*, run: Comparison, **known: Any) -> None:
    """The turn is over, the comparison is not: other tasks come first now."""
    rows = Comparison.objects.filter(pk=run.pk, state=ComparisonState.RUNNING, turn=run.turn)
    rows.update(rests=True, seen_at=timezone.now(), **known)


def end_comparison(*, comparison_id: int, state: str, reason: str, **known: Any) -> bool:
    """False when others had ended it."""
    rows = Comparison.objects.filter(pk=comparison_id, state__in=OPEN_COMPARISONS)
    changes = {"ended_at": timezone.now(), "rests": False, **known}
    return claim(rows, state=state, reason=reason, who=WORKER, changes=changes)


def waiting_comparisons() -> list[int]:
    """Comparisons whose message may be lost, or whose worker was: sent again."""
    now = timezone.now()
    old = now - ASK_AGAIN_AFTER
    lost = Comparison.objects.filter(
        state=ComparisonState.RUNNING, rests=False, seen_at__lt=now - LOST_AFTER
    )
    for run in lost.filter(lost__gte=_MOST_LOST):
        reason = (
            f"Its worker was lost {run.lost + 1} times, so it was given up. What was compared by "
            "then is below. Look into the log of the worker."
        )
        end_comparison(comparison_id=run.pk, state=ComparisonState.FAILED, reason=reason)
    lost.update(rests=True, lost=F("lost") + 1)
    queued = Comparison.objects.filter(state=ComparisonState.QUEUED, created_at__lt=old)
    resting = Comparison.objects.filter(state=ComparisonState.RUNNING, rests=True, seen_at__lt=old)
    return [*resting.values_list("pk", flat=True), *queued.values_list("pk", flat=True)]

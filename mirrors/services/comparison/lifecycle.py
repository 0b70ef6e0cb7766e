"""Life cycle of comparisons: request, take for some seconds, progress, end."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db.models import F
from django.utils import timezone

from mirrors.domain.errors import InvalidSettings
from mirrors.models import Comparison, Flow
from mirrors.models.comparison import OPEN_COMPARISONS, ComparisonState, Engine
from mirrors.services import run_lifecycle

MOST_TOPICS = 500
SECONDS, MEGABYTES, RECORDS = 120, 512, 50_000
# A runner may read faster than a flow that copies beside it can bear.
MEGABYTES_PER_SECOND = 50
MOST_SECONDS, MOST_MEGABYTES = 3600, 102_400
# A worker reports about every second; its longest silence is the deadline of some calls.
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
    megabytes_per_second: int | None = MEGABYTES_PER_SECOND,
    engine: str = "",
    is_incremental: bool = False,
    why: str = "",
) -> Comparison:
    """Store the run that a worker takes. One open run per flow.

    `engine`: `worker` for a client that shares no code with the engine; empty: the flow's runner
    reads if it can. `is_incremental`: continue where the last comparison of each partition ended.
    """
    chosen = sorted(set(topics))
    if len(chosen) > MOST_TOPICS:
        sentence = f"{len(chosen)} topics are more than the limit of {MOST_TOPICS} per run."
        raise InvalidSettings({"topics": [sentence]})
    return run_lifecycle.request(
        Comparison,
        refusal=f"A comparison of {flow.name} is already running. Wait until it ends, or abort it.",
        who=who,
        noted=why or f"For {flow.name}.",
        flow=flow,
        topics=chosen,
        content=content,
        records=records,
        seconds=seconds,
        megabytes=megabytes,
        megabytes_per_second=megabytes_per_second,
        engine=engine,
        is_incremental=is_incremental,
        engine_reason="As requested." if engine else "",
        why=why,
    )


def abort_comparison(*, run: Comparison, who: str, why: str = "") -> Comparison:
    """Abort: a queued comparison ends at once, a running one within seconds with its findings."""
    rows = Comparison.objects.filter(pk=run.pk)
    run_lifecycle.ask_to_abort(rows, who=who, why=why)
    run.refresh_from_db()
    return run


def claim_comparison(*, comparison_id: int) -> Comparison | None:
    """Take the comparison; None when another worker has it, or another comparison runs."""
    rows = Comparison.objects.filter(pk=comparison_id, state__in=OPEN_COMPARISONS)
    run = rows.select_related("flow__source", "flow__target").first()
    now = timezone.now()
    if run is None:
        return None
    rested = now - (run.seen_at or now)
    if run.state == ComparisonState.RUNNING:
        rests = rows.filter(rests=True, turn=run.turn)
        if not rests.update(rests=False, turn=F("turn") + 1, seen_at=now):
            return None
    else:
        running = Comparison.objects.filter(state=ComparisonState.RUNNING)
        # A runner reads for its own flows only, and workers stay free.
        other = running.exclude(engine=Engine.SPARK).first()
        if other is not None:
            rows.update(reason=f"It waits for comparison {other.pk} of {other.flow.name} to end.")
            return None
        queued = rows.filter(state=ComparisonState.QUEUED)
        if not run_lifecycle.claim_queued(
            queued,
            state=ComparisonState.RUNNING,
            reason="A worker reads both clusters.",
            started_at=now,
            seen_at=now,
            turn=1,
        ):
            return None
    run.refresh_from_db()
    run.rested_ms = int(rested.total_seconds() * 1000)
    return run


def note_progress(*, run: Comparison, **known: Any) -> str:
    """Heartbeat with progress; returns why the worker must stop, or an empty string."""
    rows = Comparison.objects.filter(pk=run.pk, state=ComparisonState.RUNNING, turn=run.turn)
    return run_lifecycle.heartbeat(rows, **known)


def release_comparison(*, run: Comparison, **known: Any) -> None:
    """Release the comparison so that other tasks of the queue run first."""
    rows = Comparison.objects.filter(pk=run.pk, state=ComparisonState.RUNNING, turn=run.turn)
    rows.update(rests=True, seen_at=timezone.now(), **known)


def end_comparison(*, comparison_id: int, state: str, reason: str, **known: Any) -> bool:
    """False when the comparison has ended already."""
    rows = Comparison.objects.filter(pk=comparison_id, state__in=OPEN_COMPARISONS)
    return run_lifecycle.end(rows, state=state, reason=reason, **{"rests": False, **known})


def waiting_comparisons() -> list[int]:
    """Comparisons whose message or worker may be lost, to be queued again."""
    now = timezone.now()
    held = Comparison.objects.filter(state=ComparisonState.RUNNING, rests=False)
    lost = run_lifecycle.lost_runs(held, now=now, after=LOST_AFTER)
    for run in lost.filter(lost__gte=_MOST_LOST):
        reason = (
            f"Its worker was lost {run.lost + 1} times, so the comparison ended. The results so "
            "far are below. See the worker's log."
        )
        end_comparison(comparison_id=run.pk, state=ComparisonState.FAILED, reason=reason)
    lost.update(rests=True, lost=F("lost") + 1)
    queued = Comparison.objects.filter(state=ComparisonState.QUEUED)
    resting = Comparison.objects.filter(state=ComparisonState.RUNNING, rests=True)
    return [
        *run_lifecycle.unclaimed_runs(resting, now=now, since="seen_at"),
        *run_lifecycle.unclaimed_runs(queued, now=now),
    ]

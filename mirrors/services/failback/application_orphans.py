"""Orphans of the failover of one application: listed while its flow replicates the other topics.

Decisions are carried out in the flow's name, with its transactional id. So the flow stops for them,
and then starts again. A flow that replicates these topics again is no error: its positions say what
it has replicated.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from django.utils import timezone

from mirrors.domain.audit.actors import WORKER
from mirrors.domain.errors import KafkaRefused, UnderstudyError
from mirrors.domain.failback.divergence import Divergence as Point
from mirrors.domain.failback.orphans import with_added_partitions
from mirrors.domain.failback.reverse_flow import why_diverged
from mirrors.domain.failover.scope import ScopeNames, scope_of
from mirrors.domain.formatting import plural
from mirrors.models import Failback, FailoverRun, Flow, OrphanStretch, claim
from mirrors.models.failback import UNSETTLED, FailbackState, OrphanState
from mirrors.models.flows import DesiredState
from mirrors.services import run_lifecycle
from mirrors.services.errors import Conflict
from mirrors.services.failback import orphans
from mirrors.services.failback.application import failback_of
from mirrors.services.failback.lifecycle import is_stopped
from mirrors.services.failback.positions import describe_clusters
from mirrors.services.flows.commands import pause_flow, start_flow, stop_flow
from mirrors.services.offsets import divergence_points
from mirrors.services.offsets.run_index import refresh_index

log = logging.getLogger(__name__)

# How long a worker waits until the flow has stopped; a later sweep continues.
STOP_S = 120.0
_PAUSE_S = 0.5
_NAMED = 3


def request_listing(*, run: FailoverRun, who: str, why: str) -> Failback:
    """Let a worker list the records that the failover of one application left.

    Raises Conflict if the run moved no application, or while a failback of its flow is open.
    """
    found = failback_of(run)
    if found.left.records == 0 and run.kind != "failover":
        raise Conflict(f"Run {run.pk} waited until everything was replicated: it left no record.")
    flow = run.flow
    return run_lifecycle.request(
        Failback,
        refusal=f"A failback of {flow.name} is already open. Use it, or close it first.",
        who=who,
        noted=why or f"Records that run {run.pk} left.",
        flow=flow,
        failover=run,
        scope=run.scope,
        why=why,
    )


def list_records(run: Failback) -> None:
    """In a worker: list them; the run ends here if there are none."""
    flow, spec = run.flow, run.flow.spec
    text = f"Listing records that only {flow.source.alias} has."

    def tick() -> None:
        rows = Failback.objects.filter(pk=run.pk, state=FailbackState.PREPARING)
        if stop := run_lifecycle.heartbeat(rows, reason=text):
            raise run_lifecycle.Stopped(stop)

    tick()
    refresh_index(flow=flow)
    points = _points(run)
    sides = describe_clusters(spec.source, spec.target, points)
    diverged = {
        point.topic: why
        for point in points
        if (why := why_diverged(point, sides.old, old_alias=flow.source.alias))
    }
    back = Flow.objects.filter(source=flow.target, target=flow.source).first()
    if back is not None:
        refresh_index(flow=back)
    Failback.objects.filter(pk=run.pk).update(reverse=back)
    listed = orphans.list_orphans(
        run=run,
        source=spec.source,
        points=[
            row
            for row in orphans.at_current_positions(
                flow, with_added_partitions(points, sides.old.end)
            )
            if (row.topic, row.partition) in sides.old.end and row.topic not in diverged
        ],
        old=sides.old,
        back=back,
        tick=tick,
    )
    Failback.objects.filter(pk=run.pk).update(listed_at=timezone.now())
    _end_listing(run, listed, diverged)


def _points(run: Failback) -> list[Point]:
    scope = scope_of(run.scope)
    names = None if scope is None else ScopeNames(scope)
    points = divergence_points.points_of(flow=run.flow)
    found = [point for point in points if names is None or names.has_topic(point.topic)]
    if not found:
        raise KafkaRefused(
            f"{run.flow.target.alias} has no divergence point of these topics: nothing of them was "
            "replicated there.",
            code="no_divergence",
        )
    return found


def _end_listing(run: Failback, listed: Sequence[OrphanStretch], diverged: dict[str, str]) -> None:
    alias = run.flow.source.alias
    records = sum(row.records for row in listed)
    text = (
        f"{plural(records, 'record')} of {plural(len(listed), 'partition')} exist only on {alias}. "
        "Decide on them: replay, export or drop."
        if records
        else f"Every record of these topics on {alias} was replicated."
    )
    if diverged:
        named = " ".join(list(diverged.values())[:_NAMED])
        text += f" {plural(len(diverged), 'topic')} could not be listed. {named}"
    rows = Failback.objects.filter(pk=run.pk, state=FailbackState.PREPARING)
    seen = {"seen_at": timezone.now()}
    claim(rows, state=FailbackState.RUNNING, reason=text, who=WORKER, changes=seen)
    if not records and not diverged:
        _end(run, text)


def stop_for_decisions(run: Failback) -> bool:
    """Stop the flow for decisions, and wait for the end of its job; False if that takes longer."""
    flow = Flow.objects.select_related("source", "target").get(pk=run.flow_id)
    until = time.monotonic() + STOP_S
    if flow.desired_state != DesiredState.STOPPED:
        # Before the request: a worker that dies in between starts the flow again.
        Failback.objects.filter(pk=run.pk).update(flow_was=flow.desired_state)
        why = (
            f"For decisions on records that {flow.target.alias} lacks; it starts again afterwards."
        )
        stop_flow(flow=flow, who=WORKER, why=why)
    while not is_stopped(flow):
        if time.monotonic() > until:
            return False
        Failback.objects.filter(pk=run.pk).update(seen_at=timezone.now())
        time.sleep(_PAUSE_S)
    return True


def finish_decisions(run: Failback) -> None:
    """Start the flow again, and end the run when no record is without a decision."""
    run.refresh_from_db()
    if not run.orphans.filter(state=OrphanState.DECIDED).exists():
        _start_again(run)
    waiting = run.orphans.filter(records__gt=0, state__in=UNSETTLED)
    if run.state == FailbackState.RUNNING and not waiting.exists():
        _end(run, "Each listed record has a decision, which was carried out.")


def _start_again(run: Failback) -> None:
    if not run.flow_was:
        return
    flow = Flow.objects.select_related("source", "target").get(pk=run.flow_id)
    why = "The decisions on records of one application are carried out."
    try:
        if flow.desired_state == DesiredState.STOPPED:
            start_flow(flow=flow, who=WORKER, why=why)
        if run.flow_was == DesiredState.PAUSED:
            pause_flow(flow=flow, who=WORKER, why=why)
    except UnderstudyError as error:
        # Its page shows it stopped, and why a start is refused.
        log.warning("%s does not start again: %s", flow.name, error.message)
        words = f"{flow.name} was stopped for these decisions and does not start: {error.message}"
        Failback.objects.filter(pk=run.pk).update(reason=words)
    Failback.objects.filter(pk=run.pk).update(flow_was="")


def _end(run: Failback, reason: str) -> None:
    rows = Failback.objects.filter(pk=run.pk, state=FailbackState.RUNNING)
    run_lifecycle.end(rows, state=FailbackState.SUCCEEDED, reason=reason)

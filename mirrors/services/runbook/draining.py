"""Drain: nothing is left to copy (a switchover waits for it), then the flow stops for good."""

from __future__ import annotations

import dataclasses

from django.utils import timezone

from mirrors.domain.figures import plural
from mirrors.domain.runbook.machine import Outcome
from mirrors.kafka.admin import Admin
from mirrors.models import Flow, Job, PartitionMap
from mirrors.models.flows import DesiredState
from mirrors.services.clock import milliseconds
from mirrors.services.flows.steering import start_flow, stop_flow
from mirrors.services.offsets.run_index import refresh_index
from mirrors.services.runbook.context import Context, Handler, Place, done, failed, not_yet

DEADLINE_S = 10.0


@dataclasses.dataclass(frozen=True)
class Rest:
    """What is not on the target: offsets behind, where most, and whose transaction is open."""

    behind: int
    most: str
    held: str


def _wait(context: Context) -> Outcome:
    flow = context.flow
    if context.planned and "drained_at" not in context.row.result:
        if (outcome := _catch_up(context)) is not None:
            return outcome
        context.keep(drained_at=milliseconds(timezone.now()))
    if "was" not in context.row.result:
        context.keep(was=flow.desired_state)
    if flow.desired_state != DesiredState.STOPPED:
        why = f"{context.run.kind.capitalize()} {context.run.pk}."
        stop_flow(flow=flow, who=context.run.requested_by, why=why)
    if Job.objects.filter(flow=flow, ended_at=None).exists():
        return not_yet(f"{flow.name} is asked to commit and stop.")
    if context.planned and (rest := what_is_left(context)).behind:
        return _again(context, rest)
    words = "Everything was copied. " if context.planned else ""
    return done(f"{words}{flow.name} is stopped; nobody writes to the remote topics.")


def _catch_up(context: Context) -> Outcome | None:
    """What a switchover waits for; None when nothing is left."""
    rest = what_is_left(context)
    if rest.held:
        words = (
            f"A transaction is open in {rest.held}: what it wrote is copied once it ends. Kafka "
            "aborts it when its producer's transaction.timeout.ms is over."
        )
        return not_yet(words, behind=rest.behind)
    if not rest.behind:
        return None
    words = f"{plural(rest.behind, 'record')} behind at most, most of them in {rest.most}."
    if context.flow.desired_state != DesiredState.RUNNING:
        more = f"{context.flow.name} is {context.flow.desired_state}, so they do not cross."
        return failed(f"{words} {more} Start it, then resume.", behind=rest.behind)
    return not_yet(words, behind=rest.behind)


def what_is_left(context: Context) -> Rest:
    """Asks the source for its ends, and the target for the flow's positions."""
    places: list[Place] = context.source_places
    with Admin(context.spec.source, client_id="understudy-failover") as source:
        last = source.list_offsets(places, "latest", deadline_s=DEADLINE_S).raise_first().done
        stable = source.list_offsets(places, "stable", deadline_s=DEADLINE_S).raise_first().done
        first = source.list_offsets(places, "earliest", deadline_s=DEADLINE_S).raise_first().done
    context.alive()
    refresh_index(flow=context.flow, deadline_s=DEADLINE_S)
    known = PartitionMap.objects.filter(flow=context.flow, position__isnull=False)
    positions = {(row.topic, row.partition): row.position or 0 for row in known}
    committed = context.spec.settings.isolation_level == "read_committed"
    held = next((place for place in places if committed and stable[place] < last[place]), None)
    behind = {
        place: max(0, (stable if committed else last)[place] - positions.get(place, first[place]))
        for place in places
    }
    most = max(behind, key=lambda place: behind[place], default=("", 0))
    name = "" if held is None else f"{held[0]}-{held[1]}"
    return Rest(sum(behind.values()), f"{most[0]}-{most[1]}", name)


def _again(context: Context, rest: Rest) -> Outcome:
    """Somebody wrote after the drain: the flow has to run once more."""
    start_flow(flow=_fresh(context), who=context.run.requested_by, why="Records came meanwhile.")
    context.row.result.pop("drained_at", None)
    context.keep(came_late=rest.behind)
    return not_yet(f"{plural(rest.behind, 'record')} came to {rest.most} meanwhile; drains again.")


def _undo(context: Context) -> str:
    flow = _fresh(context)
    if context.row.result.get("was") != DesiredState.RUNNING:
        return f"{flow.name} did not run before."
    if flow.desired_state == DesiredState.RUNNING:
        return f"{flow.name} runs."
    start_flow(flow=flow, who=context.run.requested_by, why=f"Run {context.run.pk} was aborted.")
    return f"{flow.name} is asked to run again."


def _fresh(context: Context) -> Flow:
    return Flow.objects.select_related("source", "target", "runner").get(pk=context.flow.pk)


DRAIN = Handler(wait=_wait, undo=_undo)

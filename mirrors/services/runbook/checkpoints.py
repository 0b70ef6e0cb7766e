"""Read checkpoints: the flow is at rest, so this plan is the last; it is what groups are set to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils import timezone

from mirrors.domain.failover.shapes import PlacePlan
from mirrors.domain.figures import plural
from mirrors.domain.runbook.machine import Outcome
from mirrors.kafka.groups import list_groups
from mirrors.models import Flow, PartitionMap
from mirrors.services.backward import answers_home, ways_home
from mirrors.services.divergence import keep
from mirrors.services.failover.failover_answers import copied_to
from mirrors.services.runbook.context import Context, Handler, Place, done, failed, not_yet
from mirrors.services.runbook.looking import active_groups, plan_now, worse_than_simulated

DEADLINE_S = 10.0
_FAR = (1 << 63) - 1


def _wait(context: Context) -> Outcome:
    _, plan = plan_now(context)
    numbers: dict[str, Any] = {
        "places": len(plan.places),
        "exact": sum(row.downstream_offset is not None for row in plan.places),
        "loss": plan.loss,
        "re_reads": plan.re_reads,
        "digest": plan.digest,
    }
    if worse := worse_than_simulated(context, plan.to_dict()):
        words = f"It is worse than what was simulated: {' '.join(worse)}"
        return failed(words, **numbers)
    if context.planned and plan.loss:
        words = f"{plural(plan.loss, 'record')} would be lost, so this is no switchover any more."
        return failed(f"{words} Abort it, and look what still writes.", **numbers)
    if context.planned:
        context.alive()
        if busy := _still_reading(context, plan.places):
            alias = context.spec.source.alias
            words = (
                f"{', '.join(busy[:3])}{', …' if len(busy) > 3 else ''} still read on {alias}: "
                "what they consume from now on they would read twice. Let them finish, or stop "
                "them there."
            )
            return not_yet(words, again_ms=2_000, reading=busy[:20], **numbers)
    # From now on the target gets records of its own: where both sides part is known only now.
    points = keep(flow=context.flow, mark=context.run.mark, now=timezone.now())
    numbers["divergence_points"] = len(points)
    exact = numbers["exact"]
    words = f"{exact:,} of {plural(len(plan.places), 'place')} of groups have an exact offset."
    lost = "not known" if plan.loss is None else plural(plan.loss, "record")
    return done(words if context.planned else f"{words} Lost: {lost}.", **numbers)


def _still_reading(context: Context, places: Iterable[PlacePlan]) -> list[str]:
    """Groups with members on the source that have not consumed all that was copied."""
    busy = set(active_groups(context, list_groups(context.spec.source, deadline_s=DEADLINE_S)))
    seen = context.row.result.get("active_groups") or []
    context.keep(active_groups=sorted(busy.union(seen)))
    ends = ends_downstream(context.flow, {(row.topic, row.partition) for row in places})
    return sorted(
        {
            row.group
            for row in places
            if row.group in busy
            and row.downstream_offset is not None
            and row.downstream_offset < ends.get((row.topic, row.partition), 0)
        }
    )


def ends_downstream(flow: Flow, places: Iterable[Place]) -> dict[Place, int]:
    """Behind the last copied record of each partition, on the target; markers do not count.

    Of remote partitions that came from there: behind the last record that a group here can read.
    """
    wanted = set(places)
    rows = PartitionMap.objects.filter(flow=flow, position__isnull=False)
    known = {(row.topic, row.partition): row.position or 0 for row in rows}
    found = copied_to(flow, {place: known[place] for place in wanted & known.keys()})
    home = wanted & ways_home(flow).keys() - known.keys()
    for place, answers in answers_home(flow, {place: [_FAR] for place in home}).items():
        if answers and answers[0].downstream is not None:
            found[place] = answers[0].downstream
    return found


READ_CHECKPOINTS = Handler(wait=_wait)

"""What a failback of one application needs next, from the rows of its run and the reverse flow."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from django.db import transaction
from django.db.models import Sum

from mirrors.domain.failback.application import (
    LeftRecords,
    NextStep,
    ReverseState,
    next_step,
    remote_patterns,
    start_offsets,
)
from mirrors.domain.failback.returned_names import returned_names, with_returned_names
from mirrors.domain.failback.reverse_flow import (
    bidirectional_settings,
    reverse_properties,
    with_topics,
)
from mirrors.domain.failover.scope import Scope, ScopeNames, scope_of
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.settings.flow_control import SKIP, START
from mirrors.models import Divergence, Failback, FailoverRun, Flow, FlowTopic
from mirrors.models.failback import UNSETTLED
from mirrors.services.errors import Conflict
from mirrors.services.failover.runbook.steps.fence import remaining_fence
from mirrors.services.flows import settings
from mirrors.services.offsets.divergence_points import points_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class ApplicationFailback:
    """The next step, and what a form for it begins with.

    - `scope`: of the switchover on the reverse flow, with topic names of the standby.
    - `start_from`, `skips`: settings of a new reverse flow.
    - `renamed`: source topics of renamed remote topics, whose names it gives back.
    - `left`: records that the failover did not replicate. `orphans`: the run that lists them.
    """

    run: FailoverRun
    reverse: Flow | None
    step: NextStep
    scope: dict[str, list[str]]
    start_from: str
    skips: bool
    renamed: dict[str, str]
    left: LeftRecords
    orphans: Failback | None
    topics: Sequence[str]


def failback_of(run: FailoverRun) -> ApplicationFailback:
    """Raises Conflict unless the run moved one application."""
    scope = scope_of(run.scope)
    if scope is None or run.kind not in ("switchover", "failover") or run.state != "succeeded":
        raise Conflict(
            f"Run {run.pk} did not move one application: fail back the whole flow instead."
        )
    flow = run.flow
    policy = policy_for(flow.spec.settings, flow.source.alias, flow.target.alias)
    names = ScopeNames(scope)
    points = [row for row in points_of(flow=flow) if names.has_topic(row.topic)]
    renamed = returned_names(points, policy)
    keeps_names = policy.kind == "identity"
    same = keeps_names or bool(renamed)
    prefix = "" if keeps_names else policy.format_remote_topic(flow.source.alias, "")
    patterns = [*remote_patterns(scope.topics, prefix), *map(re.escape, sorted(renamed))]
    scope = dataclasses.replace(scope, topics=tuple(patterns))
    reverse = (
        Flow.objects.select_related("source", "target")
        .filter(source=flow.target, target=flow.source)
        .first()
    )
    seen = _observed(reverse, ScopeNames(scope)) if reverse else None
    listing = Failback.objects.filter(failover=run).order_by("-id").first()
    left = _left(run, listing)
    return ApplicationFailback(
        run=run,
        reverse=reverse,
        step=next_step(
            seen,
            left,
            old=flow.source.alias,
            standby=flow.target.alias,
            same_names=same,
            forward_skips=flow.properties.get(SKIP) == "true",
            is_fenced=remaining_fence(run=run) is not None,
        ),
        scope=scope.to_dict(),
        start_from=start_offsets(
            [
                (row.remote_topic, row.partition, row.downstream)
                for row in points
                if policy.continues_in_remote(row.topic)
            ],
            same_names=same,
        ),
        skips=same,
        renamed=renamed,
        left=left,
        orphans=listing,
        topics=seen.topics if seen else (),
    )


def create_reverse_flow(*, run: FailoverRun, who: str) -> Flow:
    """Create and start the flow for the application's topics, with the forward flow's settings.

    It begins at the divergence points. With the same names on both sides, both flows skip what the
    other one wrote. Raises Conflict if there is a flow in this direction.
    """
    found = failback_of(run)
    flow = run.flow
    if found.reverse is not None:
        raise Conflict(f"{found.reverse.name} exists already. Add the application's topics to it.")
    policy = policy_for(flow.spec.settings, flow.source.alias, flow.target.alias)
    scope = Scope(**{key: tuple(rows) for key, rows in run.scope.items()})
    names = ScopeNames(scope)
    excluded = FlowTopic.objects.filter(flow=flow).values_list("topic", flat=True)
    moved = Divergence.objects.filter(flow=flow).values_list("topic", flat=True)
    ours = [topic for topic in {*excluded, *moved} if names.has_topic(topic)]
    properties = with_topics(reverse_properties(flow.properties, policy), ours, None)
    properties["topics"] = ",".join(scope.topics)
    properties = with_returned_names(
        properties, found.renamed, source=flow.target.spec, target=flow.source.spec
    )
    if found.start_from:
        properties[START] = found.start_from
    with transaction.atomic():
        both = bidirectional_settings(flow.properties, policy)
        settings.update_flow(flow=flow, properties=both, who=who)
        return settings.create_flow(
            source=flow.target,
            target=flow.source,
            properties=properties,
            runner=flow.runner,
            who=who,
        )


def _left(run: FailoverRun, listing: Failback | None) -> LeftRecords:
    """A switchover waited until everything was replicated."""
    loss = (run.result or {}).get("totals", {}).get("loss")
    records = loss if isinstance(loss, int) else None if run.kind == "failover" else 0
    if listing is None:
        return LeftRecords(records=records)
    waiting = listing.orphans.filter(records__gt=0, state__in=UNSETTLED)
    undecided = waiting.aggregate(records=Sum("records"))["records"] or 0
    return LeftRecords(records=records, listing=listing.state, undecided=undecided)


def _observed(reverse: Flow, names: ScopeNames) -> ReverseState:
    rows = FlowTopic.objects.filter(flow=reverse).exclude(state="skipped").order_by("topic")
    found = [row for row in rows if names.has_topic(row.topic)]
    owed = [row.total.exact_or_none for row in found]
    known = [records for records in owed if records is not None]
    return ReverseState(
        name=reverse.name,
        state=reverse.observed_state,
        topics=[row.topic for row in found],
        owed=sum(known) if len(known) == len(owed) else None,
        skips=reverse.properties.get(SKIP) == "true",
    )

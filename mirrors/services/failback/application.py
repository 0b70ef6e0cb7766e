"""What a failback of one application needs next, from the rows of its run and the reverse flow."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mirrors.domain.failback.application import NextStep, ReverseState, next_step, start_offsets
from mirrors.domain.failover.scope import ScopeNames, scope_of
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.settings.flow_control import SKIP
from mirrors.models import Divergence, FailoverRun, Flow, FlowTopic
from mirrors.services.errors import Conflict
from mirrors.services.failover.runbook.steps.fence import remaining_fence


@dataclasses.dataclass(frozen=True, kw_only=True)
class ApplicationFailback:
    """The next step, and what a form for it begins with.

    - `scope`: of the switchover on the reverse flow, with topic names of the standby.
    - `start_from`, `skips`: settings of a new reverse flow.
    - `left`: records that the failover did not replicate; None if unknown.
    """

    run: FailoverRun
    reverse: Flow | None
    step: NextStep
    scope: dict[str, list[str]]
    start_from: str
    skips: bool
    left: int | None
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
    rows = Divergence.objects.filter(flow=flow)
    points = [
        (row.remote_topic, row.partition, row.downstream)
        for row in rows
        if names.has_topic(row.topic)
    ]
    same = policy.kind == "identity"
    reverse = (
        Flow.objects.select_related("source", "target")
        .filter(source=flow.target, target=flow.source)
        .first()
    )
    seen = _observed(reverse, names) if reverse else None
    loss = (run.result or {}).get("totals", {}).get("loss")
    return ApplicationFailback(
        run=run,
        reverse=reverse,
        step=next_step(
            seen,
            old=flow.source.alias,
            standby=flow.target.alias,
            same_names=same,
            is_fenced=remaining_fence(run=run) is not None,
        ),
        scope=scope.to_dict(),
        start_from=start_offsets(points, same_names=same),
        skips=same,
        left=loss if isinstance(loss, int) else None,
        topics=seen.topics if seen else (),
    )


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

"""Sync task `topic acls`: ACLs that differ on the target, and their synchronization."""

from __future__ import annotations

import dataclasses

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.specs import FlowSpec
from mirrors.domain.sync.schedule import Outcome, SyncTaskContext
from mirrors.domain.topics.acls import AclPlan, AclRule, ExistingNames, is_complete, plan_acls
from mirrors.domain.topics.drift import Deviation, DriftDecision, DriftKey, decide_drift
from mirrors.domain.topics.manual_changes import manual_acl_changes, rule_key
from mirrors.kafka.admin.acls import Acls
from mirrors.kafka.admin.groups import list_groups
from mirrors.kafka.admin.topics import Admin
from mirrors.models import Flow
from mirrors.models.flows import DesiredState
from mirrors.services.clock import CALL_S, Budget, moment
from mirrors.services.drift.findings import findings_of, store_findings
from mirrors.services.failover.runbook.steps.fence import created_acls
from mirrors.services.topics.drift_store import record_acls, replicated_acls

_KINDS = ("acl",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AclComparison:
    """Differing ACLs, and those that somebody changed manually; None: a side has no authorizer."""

    plan: AclPlan
    ruled: dict[DriftKey, tuple[Deviation, DriftDecision]] = dataclasses.field(default_factory=dict)
    read: bool = True

    def undecided(self) -> tuple[AclRule, ...]:
        """What to create, except what people decided to leave."""
        return tuple(rule for rule in self.plan.make if not self._ruling(rule).decided)

    def due(self) -> tuple[AclRule, ...]:
        """What the sync task creates automatically."""
        return tuple(rule for rule in self.plan.make if not self._ruling(rule).leave)

    def held(self, *, decided_only: bool = False) -> tuple[str, ...]:
        rulings = (ruling for _, ruling in self.ruled.values() if ruling.leave)
        return tuple(row.reason for row in rulings if row.decided or not decided_only)

    def _ruling(self, rule: AclRule) -> DriftDecision:
        _, ruling = self.ruled.get(rule_key(rule), (None, DriftDecision(False, "")))
        return ruling


def sync_acls(context: SyncTaskContext) -> Outcome:
    """Create the ACLs of the source within the flow's scope."""
    return _bring(context)


def restore_acls(context: SyncTaskContext, keys: frozenset[DriftKey]) -> tuple[str, ...]:
    """Restore only the ACLs that people decided to restore. Returns a sentence for each failure."""
    outcome = _bring(context, keys)
    return outcome.reasons if outcome.counts["failed"] else ()


def compare_acls(
    context: SyncTaskContext, source: Acls, target: Acls, budget: Budget
) -> AclComparison:
    """ACLs to create and delete, and why others stay; nothing where one side has no authorizer."""
    spec, complete = context.spec, is_complete(context.spec)
    theirs = source.rules(groups_too=complete, deadline_s=budget.left_s)
    ours = None
    if theirs is not None:
        ours = target.rules(groups_too=complete, deadline_s=budget.left_s)
    if theirs is None or ours is None:
        alias = spec.source.alias if theirs is None else spec.target.alias
        why = f"Cluster {alias} has no authorizer, so there are no ACLs to synchronize."
        return AclComparison(plan=AclPlan(left=(why,)), read=False)
    # A failover's fence is not copied: producers must be able to write on the target.
    fence = created_acls(flow_id=context.flow_id)
    theirs = [rule for rule in theirs if rule not in fence]
    made = replicated_acls(context.flow_id)
    plan = plan_acls(
        theirs,
        ours,
        spec,
        names=_names(spec, budget) if complete else None,
        ours=made,
        shared_with=_other_flow(context.flow_id) if complete else "",
    )
    known, grace_s = findings_of(context.flow_id), spec.settings.drift_grace_seconds
    ruled = {
        found.drift_key: (
            found,
            decide_drift(found, known.get(found.drift_key), now=context.now, grace_s=grace_s),
        )
        for found in manual_acl_changes(plan.make, made)
    }
    return AclComparison(plan=plan, ruled=ruled)


def _bring(context: SyncTaskContext, only: frozenset[DriftKey] | None = None) -> Outcome:
    budget = Budget(context.deadline_s, call_s=CALL_S)
    with Acls(context.spec.source) as source, Acls(context.spec.target) as target:
        look = compare_acls(context, source, target, budget)
        due = look.due()
        if only is not None:
            due = tuple(rule for rule in due if rule_key(rule) in only)
        made = target.create_rules(due, deadline_s=budget.left_s)
        taken = target.delete_rules(
            look.plan.take if only is None else (), deadline_s=budget.left_s
        )
    _note(context, look, tuple(made.done), tuple(taken.done))
    failed = [error.message for part in (made, taken) for error in part.failed.values()]
    counts = {"made": len(made.done), "taken": len(taken.done), "failed": len(failed)}
    return Outcome(counts=counts, reasons=(*failed, *look.held(), *look.plan.left))


def _note(
    context: SyncTaskContext,
    look: AclComparison,
    made: tuple[AclRule, ...],
    taken: tuple[AclRule, ...],
) -> None:
    """Store which ACLs belong to the flow now, and the findings."""
    if not look.read:
        return
    now = moment(context.now)
    record_acls(context.flow_id, made=made, gone=(*taken, *look.plan.gone), now=now)
    put = {rule_key(rule) for rule in made}
    store_findings(context.flow_id, look.ruled, kinds=_KINDS, put_back=put, now=now)


def _names(spec: FlowSpec, budget: Budget) -> ExistingNames:
    with Admin(spec.source) as source, Admin(spec.target) as target:
        theirs = source.topic_names(deadline_s=budget.left_s)
        ours = target.topic_names(deadline_s=budget.left_s)
    groups = list_groups(spec.source, deadline_s=budget.left_s)
    return ExistingNames(
        source_topics=frozenset(theirs), target_topics=frozenset(ours), groups=frozenset(groups)
    )


def _other_flow(flow_id: int) -> str:
    """A flow into the same target that may want the same ACLs; empty when there is none."""
    flow = Flow.objects.filter(pk=flow_id).first()
    if flow is None:
        return ""
    others = Flow.objects.select_related("source", "target").exclude(pk=flow_id)
    others = others.filter(target=flow.target).exclude(desired_state=DesiredState.STOPPED)
    for other in others.order_by("pk"):
        try:
            wants = other.spec.settings.sync_topic_acls_enabled
        except InvalidSettings:
            wants = True
        if wants:
            return other.name
    return ""

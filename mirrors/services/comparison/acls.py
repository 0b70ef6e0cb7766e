"""ACLs of both clusters, compared with those that the flow would synchronize."""

from __future__ import annotations

from collections.abc import Collection

from mirrors.domain.cluster_snapshot import ClusterSnapshot
from mirrors.domain.comparison.findings import Aspect, Finding, shape_findings
from mirrors.domain.errors import KafkaRefused
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.acls import AclRule, ExistingNames, is_complete, plan_acls
from mirrors.domain.topics.sync_plan import SyncPlan
from mirrors.kafka.admin.acls import Acls
from mirrors.kafka.admin.groups import list_groups
from mirrors.services.clock import Budget

_UNSYNCED = "sync.topic.acls.enabled is false, so the flow synchronizes no ACLs."


def compare_rules(
    spec: FlowSpec,
    pictures: tuple[ClusterSnapshot, ClusterSnapshot],
    only: Collection[str],
    budget: Budget,
) -> tuple[list[Finding], Aspect]:
    """`only` names remote topics; empty means all of the flow.

    A cluster without an authorizer, or one that denies DESCRIBE, is reported and is no difference.
    """
    if not spec.settings.sync_topic_acls_enabled:
        return [], _aspect((), (), _UNSYNCED)
    complete = is_complete(spec)
    try:
        with Acls(spec.source) as source, Acls(spec.target) as target:
            theirs, ours = (
                side.rules(groups_too=complete, deadline_s=budget.left_s)
                for side in (source, target)
            )
    except KafkaRefused as error:
        return [], _aspect((), (), error.message)
    if theirs is None or ours is None:
        alias = spec.source.alias if theirs is None else spec.target.alias
        words = f"Cluster {alias} has no authorizer, so there are no ACLs to compare."
        return [], _aspect((), (), words)
    names = _names(spec, pictures, budget) if complete else None
    plan = plan_acls(theirs, ours, spec, names=names)
    wanted = plan_acls(theirs, (), spec, names=names).make
    missing = tuple(rule for rule in plan.make if not only or rule.name in only)
    asked = [rule for rule in wanted if not only or rule.name in only]
    return shape_findings(SyncPlan(acls=missing)), _aspect(asked, missing, " ".join(plan.left))


def _names(
    spec: FlowSpec, pictures: tuple[ClusterSnapshot, ClusterSnapshot], budget: Budget
) -> ExistingNames:
    return ExistingNames(
        source_topics=frozenset(pictures[0].topics),
        target_topics=frozenset(pictures[1].topics),
        groups=frozenset(list_groups(spec.source, deadline_s=budget.left_s)),
    )


def _aspect(wanted: Collection[AclRule], missing: Collection[AclRule], left: str) -> Aspect:
    return Aspect(about="acl", compared=len(wanted), differs=len(missing), left_out=left)

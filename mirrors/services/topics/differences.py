"""Differences between the topics of both clusters, and which of them are drift."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from mirrors.domain.cluster_snapshot import ClusterSnapshot
from mirrors.domain.filters.topics import ConfigSelection
from mirrors.domain.specs import FlowSpec
from mirrors.domain.sync.schedule import SyncTaskContext
from mirrors.domain.topics.configs import plan_configs
from mirrors.domain.topics.drift import Baseline, Deviation, DriftDecision, DriftKey, decide_drift
from mirrors.domain.topics.manual_changes import (
    drift_key_of,
    manual_config_changes,
    manual_topic_changes,
)
from mirrors.domain.topics.plan import TopicPlan, plan_topics
from mirrors.domain.topics.sync_plan import ConfigChange
from mirrors.kafka.admin.topics import Admin
from mirrors.models import PartitionMap
from mirrors.services.clock import Budget
from mirrors.services.drift.findings import findings_of
from mirrors.services.topics.drift_store import baselines_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopicComparison:
    """Both clusters, the differences, and those that somebody made on the target."""

    topics: TopicPlan
    source: ClusterSnapshot
    target: ClusterSnapshot
    configs: tuple[ConfigChange, ...]
    left: tuple[str, ...]
    baselines: dict[str, Baseline]
    ruled: dict[DriftKey, tuple[Deviation, DriftDecision]]

    def due(self) -> tuple[ConfigChange, ...]:
        """What the sync task changes automatically."""
        return tuple(row for row in self.configs if not self._ruling(drift_key_of(row)).leave)

    def undecided(self) -> tuple[ConfigChange, ...]:
        """What to change, except what people decided to leave."""
        return tuple(row for row in self.configs if not self._ruling(drift_key_of(row)).decided)

    def held(self, *, decided_only: bool = False) -> tuple[str, ...]:
        rulings = (ruling for _, ruling in self.ruled.values() if ruling.leave)
        return tuple(row.reason for row in rulings if row.decided or not decided_only)

    def _ruling(self, key: DriftKey) -> DriftDecision:
        _, ruling = self.ruled.get(key, (None, DriftDecision(False, "")))
        return ruling


def copied_topics(flow_id: int, spec: FlowSpec) -> set[tuple[str, str]]:
    """Source topics with the topic ids of the remote topics that have their records.

    Empty without `topic.rename`: no two topics have one name then.
    """
    if not spec.settings.topic_rename:
        return set()
    rows = PartitionMap.objects.filter(flow=flow_id, position__isnull=False)
    return set(rows.values_list("topic", "into").distinct())


def compare_topics(
    context: SyncTaskContext, source: Admin, target: Admin, budget: Budget
) -> TopicComparison:
    """The topic plan, and both clusters with the settings of the replicated topics."""
    now, spec = context.now, context.spec
    theirs = source.snapshot(now=now, deadline_s=budget.left_s, with_configs=False)
    ours = target.snapshot(now=now, deadline_s=budget.left_s, with_configs=False)
    plan = plan_topics(theirs, ours, spec, copied=copied_topics(context.flow_id, spec))
    names = [row.topic for row in plan.copied]
    theirs = add_configs(source, theirs, names, deadline_s=budget.left_s)
    remote = [row.remote_topic for row in plan.pairs]
    ours = add_configs(target, ours, remote, deadline_s=budget.left_s)
    selection = ConfigSelection(spec.settings)
    create = tuple(
        dataclasses.replace(new, configs=selection.at_creation(theirs.topics[new.topic].configs))
        for new in plan.create
    )
    configs, left = plan_configs(theirs, ours, spec, plan.pairs)
    baselines = baselines_of(context.flow_id)
    known, grace_s = findings_of(context.flow_id), spec.settings.drift_grace_seconds
    found = manual_topic_changes(plan.pairs, ours, baselines)
    if spec.settings.sync_topic_configs_enabled:
        found += manual_config_changes(configs, ours, baselines)
    return TopicComparison(
        topics=dataclasses.replace(plan, create=create),
        source=theirs,
        target=ours,
        configs=configs,
        left=left,
        baselines=baselines,
        ruled={
            key: (row, decide_drift(row, known.get(key), now=now, grace_s=grace_s))
            for row in found
            for key in (row.drift_key,)
        },
    )


def add_configs(
    admin: Admin, seen: ClusterSnapshot, names: Iterable[str], *, deadline_s: float
) -> ClusterSnapshot:
    """The picture with the configs of these topics; `failed` has those that are unknown."""
    wanted = [name for name in names if name in seen.topics]
    found = admin.describe_configs(wanted, deadline_s=deadline_s)
    topics = {
        name: dataclasses.replace(seen.topics[name], configs=configs)
        for name, configs in found.done.items()
    }
    failed = {name: error.message for name, error in found.failed.items()}
    return dataclasses.replace(
        seen, topics={**seen.topics, **topics}, failed={**seen.failed, **failed}
    )

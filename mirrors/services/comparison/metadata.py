"""Comparison of everything except records: topics, partitions, settings, ACLs and groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition
from mirrors.domain.comparison.findings import (
    Aspect,
    Finding,
    extra_partition_finding,
    group_findings,
    shape_findings,
    with_later_translations,
)
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.filters.topics import ConfigSelection
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.topics.configs import plan_configs
from mirrors.domain.topics.plan import CopiedTopic, TopicPlan, plan_topics
from mirrors.domain.topics.sync_plan import SyncPlan
from mirrors.kafka.admin.groups import list_reachable_groups
from mirrors.kafka.admin.topics import Admin
from mirrors.models import Flow, PartitionMap
from mirrors.services.clock import Budget
from mirrors.services.comparison.acls import compare_rules
from mirrors.services.groups.survey import survey_groups
from mirrors.services.topics.differences import add_configs, copied_topics

DEADLINE_S = 10.0


def find_extra_partitions(
    flow: Flow, spec: FlowSpec, copied: Iterable[CopiedTopic], target: ClusterSnapshot
) -> list[Finding]:
    """One finding each; calls Kafka only where there are extra partitions."""
    extra: dict[TopicPartition, str] = {
        (row.remote_topic, number): row.topic
        for row in copied
        if (there := target.topics.get(row.remote_topic)) is not None
        for number in range(row.partitions, there.partitions)
    }
    if not extra:
        return []
    with Admin(spec.target) as admin:
        first = admin.list_offsets(extra, "earliest", deadline_s=DEADLINE_S).done
        end = admin.list_offsets(extra, "stable", deadline_s=DEADLINE_S).done
    maps = PartitionMap.objects.filter(flow=flow, topic__in=set(extra.values()))
    known = set(maps.values_list("topic", "partition"))
    return [
        extra_partition_finding(
            topic,
            tp[0],
            tp[1],
            held=(first[tp], end[tp]) if tp in first and tp in end else None,
            was_copied=(topic, tp[1]) in known,
        )
        for tp, topic in sorted(extra.items())
    ]


LOOK_S = 25.0
_SENTENCES = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterMetadata:
    """`copied` are the topics to read; `pictures` both clusters with the settings of those."""

    copied: tuple[CopiedTopic, ...]
    pictures: tuple[ClusterSnapshot, ClusterSnapshot]
    findings: tuple[Finding, ...]
    aspects: tuple[Aspect, ...]


def read_metadata(
    *, flow: Flow, spec: FlowSpec, topics: Sequence[str], now: datetime, tick: Callable[[], None]
) -> ClusterMetadata:
    """Raises when a cluster does not respond; `tick` is called between the requests."""
    for side in (spec.source, spec.target):
        _ask(side)
        tick()
    plan, pictures = _topics(flow, spec, topics, now)
    tick()
    extra = find_extra_partitions(flow, spec, plan.copied, pictures[1])
    tick()
    changes, left = plan_configs(*pictures, spec, plan.copied)
    changed = SyncPlan(create=plan.create, grow=plan.grow, configs=changes)
    only = [row.remote_topic for row in plan.copied] if topics else []
    rule_findings, rules = compare_rules(spec, pictures, only, Budget(LOOK_S))
    tick()
    survey = survey_groups(flow=flow, spec=spec, now=now, budget=Budget(LOOK_S))
    group_partitions = [row for row in survey.group_partitions if not topics or row.topic in topics]
    synced = spec.settings.sync_group_offsets_enabled
    groups, standing = group_findings(
        group_partitions, survey.states, synced=synced, unreadable=survey.unreadable
    )
    if standing.differs:
        again = survey_groups(flow=flow, spec=spec, now=now, budget=Budget(LOOK_S))
        group_partitions = with_later_translations(group_partitions, again.group_partitions)
        groups, standing = group_findings(
            group_partitions, survey.states, synced=synced, unreadable=survey.unreadable
        )
        tick()
    aspects = (
        Aspect(
            about="topic",
            compared=len(plan.copied),
            differs=len(plan.create),
            left_out=_left(
                f"{row.topic} is not replicated: {row.reason}." for row in plan.skipped if row.fault
            ),
        ),
        Aspect(
            about="partition",
            compared=_partitions(plan.copied),
            differs=len(plan.grow) + len({row.name for row in extra if row.weight == "differs"}),
        ),
        Aspect(
            about="config",
            compared=_settings(spec, plan.copied, pictures[0]),
            differs=len(changes),
            left_out=_left(left),
        ),
        rules,
        standing,
    )
    return ClusterMetadata(
        copied=plan.copied,
        pictures=pictures,
        findings=(*shape_findings(changed), *extra, *rule_findings, *groups),
        aspects=aspects,
    )


def _ask(side: ClusterSpec) -> None:
    """A cheap request that detects an unreachable cluster early."""
    try:
        list_reachable_groups(side)
    except KafkaUnavailable as error:
        words = f"Cluster {side.alias} is unreachable, so nothing was compared: {error.message}"
        raise KafkaUnavailable(words, code=error.code) from None


def _topics(
    flow: Flow, spec: FlowSpec, topics: Sequence[str], now: datetime
) -> tuple[TopicPlan, tuple[ClusterSnapshot, ClusterSnapshot]]:
    """The flow's topic plan, and both clusters with the settings of the replicated topics."""
    budget, at = Budget(LOOK_S), int(now.timestamp() * 1000)
    with Admin(spec.source) as source, Admin(spec.target) as target:
        theirs, ours = (
            side.snapshot(now=at, deadline_s=budget.left_s, with_configs=False)
            for side in (source, target)
        )
        known = copied_topics(flow.pk, spec)
        plan = _only(plan_topics(theirs, ours, spec, copied=known), topics)
        names = [row.topic for row in plan.copied]
        theirs = add_configs(source, theirs, names, deadline_s=budget.left_s)
        remote = [row.remote_topic for row in plan.copied]
        ours = add_configs(target, ours, remote, deadline_s=budget.left_s)
    return plan, (theirs, ours)


def _only(plan: TopicPlan, topics: Sequence[str]) -> TopicPlan:
    if not topics:
        return plan
    return dataclasses.replace(
        plan,
        create=tuple(row for row in plan.create if row.topic in topics),
        grow=tuple(row for row in plan.grow if row.topic in topics),
        copied=tuple(row for row in plan.copied if row.topic in topics),
        skipped=tuple(row for row in plan.skipped if row.topic in topics),
    )


def _settings(spec: FlowSpec, copied: Iterable[CopiedTopic], source: ClusterSnapshot) -> int:
    selection = ConfigSelection(spec.settings)
    return sum(
        len(selection.later(source.topics[row.topic].configs))
        for row in copied
        if row.topic in source.topics
    )


def _partitions(copied: Iterable[CopiedTopic]) -> int:
    return sum(row.partitions for row in copied)


def _left(sentences: Iterable[str]) -> str:
    rows = list(sentences)
    more = f" And {len(rows) - _SENTENCES} more." if len(rows) > _SENTENCES else ""
    return " ".join(rows[:_SENTENCES]) + more

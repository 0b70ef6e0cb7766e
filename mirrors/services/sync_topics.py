"""Settings and access rules of remote topics: what is not in step, and bringing it into step."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterable, Sequence

from mirrors.domain.acls import AclRule, plan_acls
from mirrors.domain.changes import ConfigChange, SyncPlan
from mirrors.domain.duties import DutyContext, Outcome
from mirrors.domain.errors import KafkaRefused, UnderstudyError
from mirrors.domain.filters import ConfigSelection
from mirrors.domain.snapshot import ClusterSnapshot
from mirrors.domain.topic_configs import plan_configs
from mirrors.domain.topics import TopicPlan, plan_topics
from mirrors.kafka.acls import Acls
from mirrors.kafka.admin import Admin, NewTopicSpec

# A cluster that does not answer by then is left: a worker has more to do.
CALL_S = 15.0


class Clock:
    """What is left of a deadline, for one call after another; none gets all of it."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return min(CALL_S, max(0.5, self._until - time.monotonic()))


def sync_configs(context: DutyContext) -> Outcome:
    """The duty `topic configs`: bring the settings of remote topics into step."""
    clock = Clock(context.deadline_s)
    with Admin(context.spec.source) as source, Admin(context.spec.target) as target:
        topics, pictures = _look_at_topics(context, source, target, clock)
        changes, left = plan_configs(*pictures, context.spec, topics.copied)
        failed = _alter(target, changes, clock)
    return Outcome(
        counts={
            "topics": len(topics.copied),
            "changed": len(changes) - sum(1 for c in changes if c.remote_topic in failed),
            "failed": len(failed),
        },
        reasons=(*failed.values(), *left),
    )


def sync_acls(context: DutyContext) -> Outcome:
    """The duty `topic acls`: make the access rules that the source's topics have."""
    clock = Clock(context.deadline_s)
    with Acls(context.spec.source) as source, Acls(context.spec.target) as target:
        rules, left = _look_at_acls(context, source, target, clock)
        made = target.create_rules(rules, deadline_s=clock.left)
    failed = [error.message for error in made.failed.values()]
    counts = {"made": len(made.done), "failed": len(failed)}
    return Outcome(counts=counts, reasons=(*failed, *left))


def look(context: DutyContext) -> SyncPlan:
    """Everything that is not in step, whichever duties are on."""
    clock = Clock(context.deadline_s)
    spec = context.spec
    with contextlib.ExitStack() as stack:
        source, target = (stack.enter_context(Admin(side)) for side in (spec.source, spec.target))
        topics, pictures = _look_at_topics(context, source, target, clock)
        configs, left = plan_configs(*pictures, spec, topics.copied)
        theirs, ours = (stack.enter_context(Acls(side)) for side in (spec.source, spec.target))
        try:
            rules, stay = _look_at_acls(context, theirs, ours, clock)
        except KafkaRefused as error:
            rules, stay = (), (f"Access rules are not part of this plan. {error.message}",)
    faults = tuple(
        f"{row.topic} is not copied: {row.reason}." for row in topics.skipped if row.fault
    )
    return SyncPlan(
        create=topics.create,
        grow=topics.grow,
        configs=configs,
        acls=rules,
        left_out=(*faults, *left, *stay),
    )


def apply(context: DutyContext, plan: SyncPlan) -> tuple[str, ...]:
    """Do all of it; answers a sentence for each thing that failed."""
    clock = Clock(context.deadline_s)
    with Admin(context.spec.target) as target:
        new = [
            NewTopicSpec(
                name=topic.remote_topic,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=topic.configs,
            )
            for topic in plan.create
        ]
        made = target.create_topics(new, deadline_s=clock.left)
        wanted = {growth.remote_topic: growth.partitions for growth in plan.grow}
        grown = target.grow_topics(wanted, deadline_s=clock.left)
        failed = _alter(target, plan.configs, clock)
    with Acls(context.spec.target) as acls:
        granted = acls.create_rules(plan.acls, deadline_s=clock.left)
    errors: Iterable[UnderstudyError] = (
        *made.failed.values(),
        *grown.failed.values(),
        *granted.failed.values(),
    )
    return (*(error.message for error in errors), *failed.values())


def _look_at_topics(
    context: DutyContext, source: Admin, target: Admin, clock: Clock
) -> tuple[TopicPlan, tuple[ClusterSnapshot, ClusterSnapshot]]:
    """The plan of topics, and both clusters with the settings of the topics that it copies."""
    now, spec = context.now, context.spec
    theirs = source.snapshot(now=now, deadline_s=clock.left, with_configs=False)
    ours = target.snapshot(now=now, deadline_s=clock.left, with_configs=False)
    plan = plan_topics(theirs, ours, spec)
    theirs = _with_configs(source, theirs, [row.topic for row in plan.copied], clock)
    ours = _with_configs(target, ours, [row.remote_topic for row in plan.copied], clock)
    selection = ConfigSelection(spec.settings)
    create = tuple(
        dataclasses.replace(new, configs=selection.at_creation(theirs.topics[new.topic].configs))
        for new in plan.create
    )
    return dataclasses.replace(plan, create=create), (theirs, ours)


def _with_configs(
    admin: Admin, seen: ClusterSnapshot, names: Sequence[str], clock: Clock
) -> ClusterSnapshot:
    wanted = [name for name in names if name in seen.topics]
    found = admin.describe_configs(wanted, deadline_s=clock.left)
    topics = {
        name: dataclasses.replace(seen.topics[name], configs=configs)
        for name, configs in found.done.items()
    }
    failed = {name: error.message for name, error in found.failed.items()}
    return dataclasses.replace(
        seen, topics={**seen.topics, **topics}, failed={**seen.failed, **failed}
    )


def _look_at_acls(
    context: DutyContext, source: Acls, target: Acls, clock: Clock
) -> tuple[tuple[AclRule, ...], tuple[str, ...]]:
    """Rules to make, and why others stay; nothing where one side keeps no rules at all."""
    theirs = source.topic_rules(deadline_s=clock.left)
    ours = target.topic_rules(deadline_s=clock.left) if theirs is not None else None
    if theirs is None or ours is None:
        alias = context.spec.source.alias if theirs is None else context.spec.target.alias
        return (), (f"Cluster {alias} has no authorizer, so there are no access rules to carry.",)
    return plan_acls(theirs, ours, context.spec)


def _alter(target: Admin, changes: Iterable[ConfigChange], clock: Clock) -> dict[str, str]:
    """Remote topic -> why its settings could not be changed."""
    wanted: dict[str, dict[str, str | None]] = {}
    for change in changes:
        wanted.setdefault(change.remote_topic, {})[change.key] = change.after
    done = target.alter_configs(wanted, deadline_s=clock.left)
    return {name: error.message for name, error in done.failed.items()}

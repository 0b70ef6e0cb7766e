"""Sync task `topic configs`: settings of remote topics, and the whole plan of a flow."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable

from mirrors.domain.errors import KafkaRefused, UnderstudyError
from mirrors.domain.filters.topics import ConfigSelection
from mirrors.domain.schemas.plan import SchemaPlan
from mirrors.domain.sync.schedule import Outcome, SyncTaskContext
from mirrors.domain.topics.acls import NOT_IN_PLAN, UNREAD_RULES, AclPlan
from mirrors.domain.topics.drift import DriftKey
from mirrors.domain.topics.manual_changes import drift_key_of, next_baselines
from mirrors.domain.topics.plan import NewTopic
from mirrors.domain.topics.sync_plan import ConfigChange, SyncPlan
from mirrors.kafka.admin.acls import Acls
from mirrors.kafka.admin.rejected_configs import (
    CreateTopicsResult,
    alter_configs_by_key,
    create_topics,
)
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.services.clock import CALL_S, Budget, moment
from mirrors.services.drift.findings import store_findings
from mirrors.services.schemas.sync import apply_schemas, find_schema_differences
from mirrors.services.topics.acls import AclComparison, compare_acls
from mirrors.services.topics.differences import TopicComparison, compare_topics
from mirrors.services.topics.drift_store import record_acls, record_applied, store_baselines

_TOPIC_KINDS = ("partitions", "deleted topic")
_KINDS = ("topic config", *_TOPIC_KINDS)


def sync_configs(context: SyncTaskContext) -> Outcome:
    """Synchronize the settings of remote topics."""
    budget = Budget(context.deadline_s, call_s=CALL_S)
    with Admin(context.spec.source) as source, Admin(context.spec.target) as target:
        find_differences = compare_topics(context, source, target, budget)
        due = find_differences.due()
        failed = _alter(target, due, budget)
    done = [change for change in due if drift_key_of(change) not in failed]
    _note(context, find_differences, done, failed)
    return Outcome(
        counts={
            "topics": len(find_differences.topics.copied),
            "changed": len(done),
            "failed": len(failed),
        },
        reasons=(*_sentences(failed), *find_differences.held(), *find_differences.left),
    )


def restore_configs(context: SyncTaskContext, keys: frozenset[DriftKey]) -> tuple[str, ...]:
    """Only what people decided to put back; returns a sentence for each failure."""
    budget = Budget(context.deadline_s, call_s=CALL_S)
    with Admin(context.spec.source) as source, Admin(context.spec.target) as target:
        find_differences = compare_topics(context, source, target, budget)
        due = [change for change in find_differences.configs if drift_key_of(change) in keys]
        failed = _alter(target, due, budget)
        wanted = {name for kind, name, _ in keys if kind == "deleted topic"}
        new = [topic for topic in find_differences.topics.create if topic.remote_topic in wanted]
        made = create_topics(target, _specs(new), deadline_s=budget.left_s)
    done = [change for change in due if drift_key_of(change) not in failed]
    _note(context, find_differences, done, failed, made={str(name) for name in made.done})
    return (*_sentences(failed), *_not_created(made))


def find_differences(context: SyncTaskContext) -> SyncPlan:
    """All differences, whichever sync tasks are enabled, except decided ones."""
    budget = Budget(context.deadline_s, call_s=CALL_S)
    spec = context.spec
    with contextlib.ExitStack() as stack:
        source, target = (stack.enter_context(Admin(side)) for side in (spec.source, spec.target))
        seen = compare_topics(context, source, target, budget)
        theirs, ours = (stack.enter_context(Acls(side)) for side in (spec.source, spec.target))
        try:
            rules = compare_acls(context, theirs, ours, budget)
        except KafkaRefused as error:
            unread = f"{NOT_IN_PLAN} {error.message}"
            plan = AclPlan(left=(unread,), codes={unread: UNREAD_RULES})
            rules = AclComparison(plan=plan, read=False)
    stay = (*rules.held(decided_only=True), *rules.plan.left)
    now = moment(context.now)
    topics = {key: row for key, row in seen.ruled.items() if key[0] in _TOPIC_KINDS}
    store_findings(context.flow_id, topics, kinds=_TOPIC_KINDS, put_back=(), now=now)
    schemas, left = _schemas(context, budget)
    faults = tuple(
        f"{row.topic} is not replicated: {row.reason}." for row in seen.topics.skipped if row.fault
    )
    return SyncPlan(
        create=_but_decided(seen),
        grow=seen.topics.grow,
        configs=seen.undecided(),
        acls=rules.undecided(),
        take=rules.plan.take,
        schemas=schemas,
        left_out=(*faults, *seen.held(decided_only=True), *seen.left, *stay, *left),
        codes=rules.plan.codes,
    )


def _schemas(context: SyncTaskContext, budget: Budget) -> tuple[SchemaPlan, tuple[str, ...]]:
    """What the target's registry lacks, and what is left out; nothing if schemas are not synced."""
    if not context.spec.settings.sync_schemas_enabled:
        return SchemaPlan(), ()
    try:
        left = dataclasses.replace(context, deadline_s=budget.left_s)
        seen = find_schema_differences(left)
    except UnderstudyError as error:
        return SchemaPlan(), (f"Schemas are not in this plan. {error.message}",)
    return seen.undecided(), (*seen.held(decided_only=True), *seen.plan.left_out)


def apply(context: SyncTaskContext, plan: SyncPlan) -> tuple[str, ...]:
    """Apply all of it; returns a sentence for each failure."""
    budget = Budget(context.deadline_s, call_s=CALL_S)
    with Admin(context.spec.target) as target:
        made = create_topics(target, _specs(plan.create), deadline_s=budget.left_s)
        wanted = {growth.remote_topic: growth.partitions for growth in plan.grow}
        grown = target.create_partitions(wanted, deadline_s=budget.left_s)
        failed = _alter(target, plan.configs, budget)
    with Acls(context.spec.target) as acls:
        granted = acls.create_rules(plan.acls, deadline_s=budget.left_s)
        taken = acls.delete_rules(plan.take, deadline_s=budget.left_s)
    record_applied(
        context.flow_id, (row for row in plan.configs if drift_key_of(row) not in failed)
    )
    record_acls(
        context.flow_id,
        made=tuple(granted.done),
        gone=tuple(taken.done),
        now=moment(context.now),
    )
    errors: Iterable[UnderstudyError] = (
        *grown.failed.values(),
        *granted.failed.values(),
        *taken.failed.values(),
    )
    schemas: tuple[str, ...] = ()
    if plan.schemas.changes:
        left = dataclasses.replace(context, deadline_s=budget.left_s)
        schemas = apply_schemas(left, plan.schemas)
    return (
        *_not_created(made),
        *(error.message for error in errors),
        *_sentences(failed),
        *schemas,
    )


def _note(
    context: SyncTaskContext,
    find_differences: TopicComparison,
    done: Iterable[ConfigChange],
    failed: dict[DriftKey, str],
    made: Iterable[str] = (),
) -> None:
    """Store the new state of the remote topics, and the drift found."""
    restore_configs = {drift_key_of(change) for change in done}
    restore_configs |= {("deleted topic", name, "") for name in made}
    held = {key for key in find_differences.ruled if key not in restore_configs}
    pending = {drift_key_of(change) for change in find_differences.configs} - restore_configs
    after = next_baselines(
        find_differences.topics.pairs,
        find_differences.source,
        find_differences.target,
        ConfigSelection(context.spec.settings),
        find_differences.baselines,
        unsettled=held | pending,
        failed=failed,
    )
    store_baselines(context.flow_id, find_differences.baselines, after)
    store_findings(
        context.flow_id,
        find_differences.ruled,
        kinds=_KINDS,
        put_back=restore_configs,
        now=moment(context.now),
    )


def _but_decided(seen: TopicComparison) -> tuple[NewTopic, ...]:
    decided = {name for (kind, name, _), (_, rule) in seen.ruled.items() if rule.decided}
    return tuple(new for new in seen.topics.create if new.remote_topic not in decided)


def _specs(topics: Iterable[NewTopic]) -> list[NewTopicSpec]:
    return [
        NewTopicSpec(
            name=topic.remote_topic,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs=topic.configs,
        )
        for topic in topics
    ]


def _alter(target: Admin, changes: Iterable[ConfigChange], budget: Budget) -> dict[DriftKey, str]:
    """Why settings could not be changed, each one separately."""
    rows = {(change.remote_topic, change.key): change for change in changes}
    wanted: dict[str, dict[str, str | None]] = {}
    for (name, key), change in rows.items():
        wanted.setdefault(name, {})[key] = change.after
    done = alter_configs_by_key(target, wanted, deadline_s=budget.left_s)
    return {drift_key_of(rows[at]): error.message for at, error in done.failed.items()}


def _sentences(failed: dict[DriftKey, str]) -> tuple[str, ...]:
    """One per answer of the cluster: a topic that may not be changed has one for all keys."""
    return tuple(dict.fromkeys(failed.values()))


def _not_created(made: CreateTopicsResult) -> tuple[str, ...]:
    return (
        *(error.message for error in made.failed.values()),
        *(refused.sentence(name) for name, refused in made.rejected.items()),
    )

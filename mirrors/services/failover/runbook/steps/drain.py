"""Step drain: a switchover waits until everything is replicated, then the flow stops."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone

from mirrors.domain.account.partition import Owed, PartitionFacts, evaluate
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.failback.reverse_flow import with_topics, without_topics
from mirrors.domain.failover.runbook.state_machine import Outcome
from mirrors.domain.flows.named_offsets import without_offsets_of
from mirrors.domain.formatting import plural
from mirrors.domain.gaps.lost_ranges import UNCOPYABLE
from mirrors.domain.settings.flow_control import START, UNTIL
from mirrors.kafka.admin.topics import Admin, OffsetQuery
from mirrors.models import Flow, Gap, Job, PartitionMap
from mirrors.models.audit.transitions import note
from mirrors.models.flows import DesiredState
from mirrors.services.clock import milliseconds
from mirrors.services.failover.runbook.context import Context, Handler, done, failed, not_yet
from mirrors.services.flows.commands import start_flow, stop_flow
from mirrors.services.flows.settings import update_flow
from mirrors.services.offsets.run_index import refresh_index

DEADLINE_S = 10.0
_NAMED = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class RemainingRecords:
    """What the target lacks, of the partitions in the plan.

    `owed`: partitions with records left. `held`: one with an open transaction. `waiting`: those
    that wait for a decision. `unread`: why others cannot be read on the source.
    """

    owed: tuple[Owed, ...] = ()
    held: str = ""
    waiting: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unread: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def behind(self) -> int:
        return sum(part.records or 0 for part in self.owed)

    @property
    def most(self) -> str:
        part = max(self.owed, key=lambda part: part.records or 0, default=None)
        return "" if part is None else f"{part.topic}-{part.partition}"


def _wait(context: Context) -> Outcome:
    if context.row.result.get("excluded"):
        return _continued(context)
    outcome = _stopped_flow(context)
    if outcome.what != "done" or context.scope is None:
        return outcome
    _exclude(context)
    after = _continued(context)
    return dataclasses.replace(outcome, words=f"{outcome.words} {after.words}")


def _exclude(context: Context) -> None:
    """While the flow is stopped, its settings leave out the topics of the scope.

    The next job of the flow selects by these settings, so it never writes a remote topic of them.
    """
    flow = _fresh(context)
    topics = _scope_topics(context)
    if "exclude_before" not in context.row.result:
        before = {key: flow.properties[key] for key in (START, UNTIL) if key in flow.properties}
        context.keep(exclude_before=flow.properties.get("topics.exclude"), offsets_before=before)
    after = without_offsets_of(without_topics(flow.properties, topics), topics)
    update_flow(flow=flow, properties=after, who=context.run.requested_by)
    why = f"{context.run.kind.capitalize()} {context.run.pk} moved them to {flow.target.alias}."
    words = f"{', '.join(topics[:_NAMED])}{', …' if len(topics) > _NAMED else ''}: {why}"
    note(flow, what="topics excluded", who=context.run.requested_by, why=words)
    context.keep(excluded=topics)


def _scope_topics(context: Context) -> list[str]:
    """All topics of the plan: also those that block, or are left behind by decision."""
    plan = context.plan
    rows = [*plan["partitions"], *plan.get("not_copied", []), *plan.get("left_partitions", [])]
    return sorted({row["topic"] for row in rows if row["topic"]})


def _continued(context: Context) -> Outcome:
    """The rest of the flow continues, if it ran before."""
    flow = _fresh(context)
    topics = plural(len(context.row.result["excluded"]), "topic")
    left = f"{flow.name} excludes {topics} from now on (topics.exclude)"
    if context.row.result.get("was") != DesiredState.RUNNING:
        return done(f"{left}.")
    if flow.desired_state == DesiredState.STOPPED:
        why = f"{context.run.kind.capitalize()} {context.run.pk}: the other topics continue."
        start_flow(flow=flow, who=context.run.requested_by, why=why)
    return done(f"{left} and continues with the other topics.")


def _stopped_flow(context: Context) -> Outcome:
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
        return not_yet(f"{flow.name} commits and stops.")
    words = f"{flow.name} is stopped; nothing writes to the remote topics."
    return done(words) if not context.planned else _stopped(context, words)


def _stopped(context: Context, words: str) -> Outcome:
    """A last check after the flow's end; a source that died since was drained before."""
    try:
        rest = remaining_records(context)
    except KafkaUnavailable as error:
        alias = context.spec.source.alias
        return done(f"{words} {alias} stopped responding after it was drained: {error.message}")
    if rest.behind:
        return _again(context, rest)
    count = len(context.source_partitions) - len(rest.unread) - len(rest.waiting)
    copied = f"Everything was replicated in {plural(count, 'partition')}."
    return done(f"{copied} {words}{_unknown_sentence(rest)}", unread=dict(rest.unread))


def _catch_up(context: Context) -> Outcome | None:
    """What a switchover waits for; None when nothing is left."""
    rest = remaining_records(context)
    numbers: dict[str, Any] = {"behind": rest.behind, "unread": dict(rest.unread)}
    if rest.held:
        words = (
            f"A transaction is open in {rest.held}: its records are replicated once it ends. Kafka "
            "aborts it after its producer's transaction.timeout.ms."
        )
        return not_yet(words, **numbers)
    if rest.waiting:
        return failed(_waiting_sentence(rest.waiting), **numbers)
    if not rest.behind:
        return None
    words = f"At most {plural(rest.behind, 'record')} behind, most of them in {rest.most}."
    if context.flow.desired_state != DesiredState.RUNNING:
        more = f"{context.flow.name} is {context.flow.desired_state}, so they are not replicated."
        return failed(f"{words} {more} Start it, then resume.", **numbers)
    return not_yet(words, **numbers)


def remaining_records(context: Context) -> RemainingRecords:
    """Reads the source's ends, and the flow's positions on the target.

    One unreadable partition does not affect others. Raises when the source as a whole does not
    respond.
    """
    partitions: list[TopicPartition] = context.source_partitions
    committed = context.spec.settings.isolation_level == "read_committed"
    with Admin(context.spec.source, client_id="understudy-failover") as source:
        last, stable, first = (
            _ask(source, partitions, at) for at in ("latest", "stable", "earliest")
        )
    context.alive()
    refresh_index(flow=context.flow, deadline_s=DEADLINE_S)
    unread = {tp: why for answer in (last, stable, first) for tp, why in answer[1].items()}
    known = PartitionMap.objects.filter(flow=context.flow, position__isnull=False)
    positions = {(row.topic, row.partition): row.position for row in known}
    ends = (stable if committed else last)[0]
    told = [tp for tp in partitions if tp not in unread]
    owed = [
        evaluate(
            PartitionFacts(
                topic=tp[0],
                partition=tp[1],
                position=positions.get(tp),
                first=first[0][tp],
                end=ends[tp],
                # Then it is another log, and its records were never replicated.
                end_below_position=ends[tp] < (positions.get(tp) or 0),
            )
        )
        for tp in told
    ]
    held = [tp for tp in told if committed and stable[0][tp] < last[0][tp]]
    return RemainingRecords(
        owed=tuple(part for part in owed if part.records != 0),
        held=_name(held[0]) if held else "",
        waiting=_waiting(context, set(told)) | _other_logs(owed),
        unread={_name(tp): why for tp, why in unread.items()},
    )


def _ask(
    source: Admin, partitions: Sequence[TopicPartition], at: OffsetQuery
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
    found = source.list_offsets(partitions, at, deadline_s=DEADLINE_S)
    if not found.done and any(isinstance(e, KafkaUnavailable) for e in found.failed.values()):
        found.raise_first()
    return found.done, {tp: error.message for tp, error in found.failed.items()}


def _waiting(context: Context, partitions: set[TopicPartition]) -> dict[str, str]:
    rows = Gap.objects.filter(flow=context.flow, closed_at=None).exclude(kind__in=UNCOPYABLE)
    return {
        str(gap): gap.reason or f"it is {gap.kind}."
        for gap in rows
        if (gap.topic, gap.partition) in partitions
    }


def _other_logs(owed: Sequence[Owed]) -> dict[str, str]:
    return {f"{part.topic}-{part.partition}": part.reason for part in owed if part.records is None}


def _name(tp: TopicPartition) -> str:
    return f"{tp[0]}-{tp[1]}"


def _waiting_sentence(waiting: Mapping[str, str]) -> str:
    name, why = next(iter(waiting.items()))
    more = f" So do {len(waiting) - 1:,} more." if len(waiting) > 1 else ""
    return (
        f"{name} waits for a decision, so it is not replicated: {why}{more} Decide on it, then "
        "resume; or abort, leave it behind by decision, and simulate again."
    )


def _unknown_sentence(rest: RemainingRecords) -> str:
    """Partitions whose state is unknown, by name."""
    left = {**rest.waiting, **rest.unread}
    if not left:
        return ""
    named = "; ".join(f"{name}: {why}" for name, why in list(left.items())[:_NAMED])
    more = f" And {len(left) - _NAMED:,} more." if len(left) > _NAMED else ""
    return f" Unknown for {plural(len(left), 'partition')}: {named}{more}"


def drain_obstacle(context: Context) -> str:
    """Before the fence: why a drain could not tell when all is replicated; empty when it can."""
    try:
        rest = remaining_records(context)
    except UnderstudyError as error:
        return error.message
    left = _unknown_sentence(rest).strip()
    return f"{left} Fix the cause, or leave them behind by decision." if left else ""


def _again(context: Context, rest: RemainingRecords) -> Outcome:
    """Somebody wrote after the drain: the flow has to run again."""
    start_flow(flow=_fresh(context), who=context.run.requested_by, why="New records arrived.")
    context.row.result.pop("drained_at", None)
    context.keep(came_late=rest.behind)
    return not_yet(
        f"{plural(rest.behind, 'record')} arrived at {rest.most} after the drain; draining again."
    )


def _undo(context: Context) -> str:
    if "exclude_before" in context.row.result:
        flow, kept = _fresh(context), context.row.result
        topics = kept.get("excluded") or _scope_topics(context)
        after = with_topics(flow.properties, topics, kept["exclude_before"])
        after |= kept.get("offsets_before", {})
        update_flow(flow=flow, properties=after, who=context.run.requested_by)
    flow = _fresh(context)
    if context.row.result.get("was") != DesiredState.RUNNING:
        return f"{flow.name} was not running before."
    if flow.desired_state == DesiredState.RUNNING:
        return f"{flow.name} runs."
    start_flow(flow=flow, who=context.run.requested_by, why=f"Run {context.run.pk} was aborted.")
    return f"{flow.name} was started again."


def _fresh(context: Context) -> Flow:
    return Flow.objects.select_related("source", "target", "runner").get(pk=context.flow.pk)


DRAIN = Handler(wait=_wait, undo=_undo)

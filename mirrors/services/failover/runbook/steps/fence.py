"""Step fence_producers: denies WRITE on the source, and checks that the ends no longer move."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.domain.failover.runbook.state_machine import Outcome
from mirrors.domain.failover.runbook.steps import KINDS
from mirrors.domain.formatting import plural
from mirrors.domain.settings import failover as keys
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.topics.acls import AclRule
from mirrors.kafka.admin.client_fence import (
    CLIENT_ID,
    ClientFence,
    deny_writes,
    preserve_open_access,
)
from mirrors.kafka.admin.topics import Admin
from mirrors.models import FailoverRun, FailoverStep
from mirrors.services.clock import milliseconds
from mirrors.services.failover.runbook.context import Context, Handler, done, not_yet, skipped
from mirrors.services.failover.runbook.steps.hooks import call, undo_hook

DEADLINE_S = 10.0
# A failover waits no longer for producers that still write.
PATIENCE_MS = 10_000


def _act(context: Context) -> Outcome | None:
    how = str(context.run.hooks.get(keys.FENCE) or "acl")
    source = context.spec.source.alias
    if how == "acl" and not context.source_answers:
        return skipped(
            f"{source} does not respond, so no ACL can be created. Records written there from "
            "now on are not replicated: prevent producers from writing before it comes back."
        )
    if how == "none" and context.planned:
        context.keep(how=how)
        return None
    if how != "acl":
        context.keep(how=how)
        return _passed(call(context, how))
    try:
        why_not = _deny(context)
    except KafkaUnavailable as error:
        if context.planned:
            raise
        return skipped(f"{source} stopped responding, so no ACL was created: {error.message}")
    if not why_not:
        return None
    way = keys.fallback(context.run.hooks)
    context.keep(how=way, fell_back=why_not)
    outcome = call(context, way)
    words = f"ACLs cannot fence {source}: {why_not} {outcome.words}"
    return _passed(dataclasses.replace(outcome, words=words))


def _passed(outcome: Outcome) -> Outcome | None:
    """The hook or person confirmed: now the log ends have to show it."""
    return None if outcome.what == "done" else outcome


def _deny(context: Context) -> str:
    """Create the ACLs that do not exist yet; returns why that is impossible, or an empty string."""
    spec, topics = context.spec.source, sorted({topic for topic, _ in context.source_partitions})
    mine = _rules(context.row.result)
    with ClientFence(spec, client_id=CLIENT_ID) as fence:
        try:
            there = fence.rules(deadline_s=DEADLINE_S)
            if there is None:
                return f"{spec.alias} has no authorizer, so it stores no ACLs."
            wanted = deny_writes(topics)
            # A topic without an ACL may be open to everybody, which the first ACL would end.
            opened = preserve_open_access(topics, [rule for rule in there if rule not in mine])
            everybody = fence.allows_everyone(deadline_s=DEADLINE_S) if opened else False
            if everybody is None:
                return _hidden(spec, opened[0].name)
            if everybody:
                wanted = [*opened, *wanted]
        except KafkaRefused as error:
            return error.message
        missing = [rule for rule in wanted if rule not in there]
        mine += [rule for rule in missing if rule not in mine]
        context.keep(how="acl", rules=[dataclasses.asdict(rule) for rule in mine])
        context.alive()
        made = fence.create_rules(missing, deadline_s=DEADLINE_S)
        refused = next(iter(made.failed.values()), None)
        if refused is not None and not isinstance(refused, KafkaRefused):
            raise refused
        if refused is not None:
            fence.delete_rules(mine, deadline_s=DEADLINE_S).raise_first()
            context.keep(rules=[])
            return refused.message
    return ""


def _hidden(source: ClusterSpec, topic: str) -> str:
    return (
        f"{topic} has no ACL, and the brokers do not report whether {source.alias} then allows "
        "everybody (its allow.everyone.if.no.acl.found): the first ACL could lock out readers. "
        "An ACL that allows the topic's readers makes this fence possible."
    )


def _wait(context: Context) -> Outcome:
    """Until two reads, one second apart, return the same ends."""
    row, source = context.row, context.spec.source
    if not context.source_answers:
        return done(f"Done; {source.alias} does not respond, so its end offsets cannot be read.")
    now = milliseconds(timezone.now())
    try:
        ends, unread = source_ends(context)
    except KafkaUnavailable as error:
        if context.planned:
            raise
        return done(
            f"{source.alias} stopped responding, so its end offsets are unknown: {error.message}"
        )
    context.keep(unread=unread)
    before = row.result.get("ends")
    moving = [name for name, end in ends.items() if before is None or before.get(name) != end]
    began = row.result.get("looked_at") or now
    context.keep(ends=ends, looked_at=began)
    if before is not None and not moving:
        return done(
            f"{_fence_sentence(context)}{_unread_sentence(source.alias, unread)}", fenced_at=now
        )
    if before is None:
        return not_yet(f"Checking whether records still arrive on {source.alias}.")
    words = (
        f"Records still arrive at {moving[0]} on {source.alias}. Its producer may be a super "
        "user, whom ACLs do not stop, or was not stopped yet."
    )
    if not context.planned and now - began > PATIENCE_MS:
        return done(f"{words} Records that arrive from now on are lost.", fenced_at=None)
    return not_yet(words)


def _fence_sentence(context: Context) -> str:
    result, source = context.row.result, context.spec.source.alias
    count = len({topic for topic, _ in context.source_partitions})
    how = {
        "acl": f"WRITE is denied to everybody on {plural(count, 'topic')} of {source}.",
        "person": f"Confirmed by {context.row.confirmed_by}.",
        "none": "The producers are not fenced, by configuration.",
    }.get(result.get("how", ""), "The hook reports that producers no longer write.")
    fell = f"ACLs cannot fence it: {result['fell_back']} " if "fell_back" in result else ""
    return f"{fell}{how} No more records arrive on {source}."


def _unread_sentence(alias: str, unread: Mapping[str, str]) -> str:
    if not unread:
        return ""
    name, why = next(iter(unread.items()))
    return (
        f" The end of {plural(len(unread), 'partition')} on {alias} cannot be read, so whether "
        f"records arrive there is unknown: {name}: {why}"
    )


def source_ends(context: Context) -> tuple[dict[str, int], dict[str, str]]:
    """End offset by `topic-partition`, with open transactions, or why it cannot be read.

    Raises when the source as a whole does not respond."""
    partitions: list[TopicPartition] = context.source_partitions
    with Admin(context.spec.source, client_id=CLIENT_ID) as admin:
        found = admin.list_offsets(partitions, "latest", deadline_s=DEADLINE_S)
    if not found.done and any(isinstance(e, KafkaUnavailable) for e in found.failed.values()):
        found.raise_first()
    return (
        {f"{topic}-{number}": end for (topic, number), end in found.done.items()},
        {f"{topic}-{number}": error.message for (topic, number), error in found.failed.items()},
    )


def _undo(context: Context) -> str:
    rules = _rules(context.row.result)
    if not rules:
        return undo_hook(context)
    return _open_again(context.spec.source, rules)


def remaining_fence(*, run: FailoverRun) -> FailoverStep | None:
    """The step whose ACLs an ended run left on the source."""
    step = run.steps.filter(name="fence_producers", undone_at=None).first()
    left = run.ended_at is not None and step is not None and step.result.get("rules")
    return step if left else None


def created_acls(*, flow_id: int) -> set[AclRule]:
    """ACLs that runs of this flow created on its source and have not deleted yet."""
    steps = FailoverStep.objects.filter(
        run__flow=flow_id, run__kind__in=KINDS, name="fence_producers", undone_at=None
    )
    return {rule for result in steps.values_list("result", flat=True) for rule in _rules(result)}


def remaining_fences(*, source_id: int, target_id: int) -> list[FailoverStep]:
    """Fences that ended runs from one cluster to the other left on the first one."""
    steps = FailoverStep.objects.filter(
        run__flow__source=source_id,
        run__flow__target=target_id,
        run__kind__in=KINDS,
        run__ended_at__isnull=False,
        name="fence_producers",
        undone_at=None,
    )
    rows = steps.select_related("run__flow__source", "run__flow__target").order_by("run")
    return [step for step in rows if step.result.get("rules")]


def lift_fence(*, run_id: int, who: str) -> bool:
    """In a worker, after the run: delete its ACLs; the step stores the outcome."""
    run = FailoverRun.objects.select_related("flow__source").get(pk=run_id)
    step = remaining_fence(run=run)
    if step is None:
        return False
    try:
        delete_fence_acls(step=step, who=who)
    except UnderstudyError as error:
        step.undo_reason = error.message
        step.save(update_fields=["undo_reason"])
    return step.undone_at is not None


def delete_fence_acls(*, step: FailoverStep, who: str) -> None:
    """Delete the ACLs of one fence; raises with a reason where the cluster refuses."""
    words = _open_again(step.run.flow.source.spec, _rules(step.result))
    step.undone_at, step.undo_reason = timezone.now(), f"{words} Requested by {who}."
    step.save(update_fields=["undone_at", "undo_reason"])


def restore_fence(*, step: FailoverStep) -> None:
    """Create the ACLs again that `delete_fence_acls` deleted."""
    with ClientFence(step.run.flow.source.spec, client_id=CLIENT_ID) as fence:
        fence.create_rules(_rules(step.result), deadline_s=DEADLINE_S).raise_first()
    step.undone_at, step.undo_reason = None, ""
    step.save(update_fields=["undone_at", "undo_reason"])


def _open_again(source: ClusterSpec, rules: list[AclRule]) -> str:
    try:
        with ClientFence(source, client_id=CLIENT_ID) as fence:
            # DENY rules first: without its ALLOW rules a topic would be readable by nobody.
            ordered = sorted(rules, key=lambda rule: rule.permission != "DENY")
            fence.delete_rules(ordered, deadline_s=DEADLINE_S).raise_first()
    except UnderstudyError as error:
        words = f"{source.alias} is still fenced: {error.message}"
        raise UnderstudyError(words, code=error.code) from None
    return f"{plural(len(rules), 'ACL')} of this run deleted on {source.alias}."


def _rules(result: dict[str, Any]) -> list[AclRule]:
    return [AclRule(**rule) for rule in result.get("rules", [])]


FENCE = Handler(act=_act, wait=_wait, undo=_undo)

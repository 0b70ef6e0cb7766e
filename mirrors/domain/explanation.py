"""Why a topic or group is replicated or not: the flow's rules, then what its runner observed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from mirrors.domain.filters.groups import GroupSelection
from mirrors.domain.filters.topics import (
    RuleVerdict,
    TopicSelection,
    naming_problem,
    naming_reason,
)
from mirrors.domain.patterns.renames import RENAME
from mirrors.domain.replication_policy import ReplicationPolicy, policy_for
from mirrors.domain.specs import FlowSettings, FlowSpec
from mirrors.domain.topics.priority import PriorityRules
from mirrors.domain.transforms.rules import TRANSFORMS, effect_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """The answer. `fix` is None if no rule failed, or if there is nothing to fix."""

    name: str
    replicated: bool
    reason: str
    rules: tuple[RuleVerdict, ...]
    fix: str | None


def explain(
    name: str, rules: Sequence[RuleVerdict], fixes: Mapping[str, str], *, carried: str = ""
) -> Explanation:
    """Combine the rules. `carried` is the reason if none failed; by default the first passed."""
    failed = next((rule for rule in rules if rule.passed is False), None)
    passed = next((rule.reason for rule in rules if rule.passed), "no rule was evaluated")
    fix = fixes.get(failed.rule, "").format(name=name) if failed is not None else ""
    return Explanation(
        name=name,
        replicated=failed is None,
        reason=failed.reason if failed is not None else carried or passed,
        rules=tuple(rules),
        fix=fix or None,
    )


TOPIC_FIXES = {
    "topics": "Add a pattern that matches {name} to topics.",
    "topics.exclude": "Remove the pattern that matches {name} from topics.exclude.",
    "internal": "Internal topics are never replicated; each cluster keeps its own.",
    "bookkeeping": "Understudy's own topics are never replicated.",
    RENAME: "Change the rule in topic.rename, or add one before it that names {name}.",
    "cycle": "Nothing to change: {name} came from there, so replicating it would create a loop.",
    "found": "Create the topic, or grant the flow's principal DESCRIBE on it. With "
    "refresh.topics.enabled=false, restart the flow, so that it lists topics again.",
    "possible": "Fix what the reason names; the flow checks again automatically.",
    "copying": "See the partitions of {name} on the Partitions tab, and the Gaps tab.",
}
_STANDS = ("faulted", "gap")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopicObservation:
    """The topic as the flow's runner last reported it."""

    state: str
    reason: str
    at: str


def explain_topic(
    topic: str, spec: FlowSpec, *, looked_at: str = "", seen: TopicObservation | None = None
) -> Explanation:
    """Explain one topic. `looked_at`: when the runner last listed the source; empty if never."""
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    verdict = TopicSelection(spec.settings, policy).decide(topic)
    priority = _priority(topic, verdict.replicated, spec)
    found = _found(verdict.replicated, spec, looked_at, seen)
    named = _named(topic, verdict.replicated, policy)
    rules = (
        *verdict.rules,
        *named,
        priority,
        *_transforms(topic, verdict.replicated, spec),
        *found,
    )
    return explain(topic, rules, TOPIC_FIXES, carried=verdict.reason)


def _named(topic: str, wanted: bool, policy: ReplicationPolicy) -> tuple[RuleVerdict, ...]:
    """Return which rule names its remote topic, if the flow has rules for that."""
    if not policy.renames:
        return ()
    if not wanted:
        return (RuleVerdict(RENAME, None, "not evaluated: the flow does not select it"),)
    if problem := naming_problem(topic, policy, {}):
        return (RuleVerdict(RENAME, False, problem),)
    return (RuleVerdict(RENAME, True, naming_reason(topic, policy)),)


def _priority(topic: str, wanted: bool, spec: FlowSpec) -> RuleVerdict:
    ranks = PriorityRules(spec.settings)
    if not wanted or not ranks.are_used:
        why = "the flow has no priority classes" if wanted else "the flow does not select it"
        return RuleVerdict("priority", None, f"not evaluated: {why}")
    return RuleVerdict("priority", True, ranks.of(topic).reason)


def _transforms(topic: str, wanted: bool, spec: FlowSpec) -> tuple[RuleVerdict, ...]:
    """Return which rule changes its records, if the flow has rules."""
    rules = spec.settings.transforms
    if not rules:
        return ()
    if not wanted:
        return (RuleVerdict(TRANSFORMS, None, "not evaluated: the flow does not select it"),)
    return (RuleVerdict(TRANSFORMS, True, effect_of(topic, rules)),)


def _found(
    wanted: bool, spec: FlowSpec, looked_at: str, seen: TopicObservation | None
) -> tuple[RuleVerdict, ...]:
    if not wanted or not looked_at:
        why = "the flow does not select it" if not wanted else "no runner has listed topics yet"
        told = f"not evaluated: {why}"
        return tuple(RuleVerdict(rule, None, told) for rule in ("found", "possible", "copying"))
    if seen is None:
        told = (
            f"is not among the topics that the flow saw on {spec.source.alias} at {looked_at}; "
            f"{_next(spec)}"
        )
        none = "not evaluated: the topic was not found"
        return (
            RuleVerdict("found", False, told),
            RuleVerdict("possible", None, none),
            RuleVerdict("copying", None, none),
        )
    refused, stands = seen.state == "skipped", seen.state in _STANDS
    words = seen.state.replace("_", " ")
    return (
        RuleVerdict("found", True, f"was seen on {spec.source.alias} at {seen.at}"),
        RuleVerdict("possible", not refused, seen.reason if refused else "nothing prevents it"),
        RuleVerdict(
            "copying",
            None if refused else not stands,
            "not evaluated: it cannot be replicated"
            if refused
            else f"is {words}. {seen.reason}".rstrip(),
        ),
    )


def _next(spec: FlowSpec) -> str:
    if not spec.settings.refresh_topics_enabled:
        return "refresh.topics.enabled is false, so the flow lists topics only when it starts"
    return f"the flow lists topics every {spec.settings.refresh_topics_interval_seconds} s"


GROUP_FIXES = {
    "kind": "Nothing to change: only offsets of consumer groups can be synchronized.",
    "groups": "Add a pattern that matches {name} to groups.",
    "groups.exclude": "Remove the pattern that matches {name} from groups.exclude.",
    "found": "Have the group commit an offset, or grant the flow's principal DESCRIBE on the "
    "group. If refresh.groups.enabled is false, set it to true.",
    "offsets": "Have the group commit an offset on the source; that also replaces an expired one.",
    "topics": "Have the flow replicate what the group reads: change topics or topics.exclude.",
    "map": "Wait until the flow has replicated more; a record that was never replicated has no "
    "offset on the target.",
    "rights": "Grant the flow's principal what the reason names on the target.",
    "sync.group.offsets.enabled": "Set sync.group.offsets.enabled=true, or move the group by a "
    "failover. Until then, checkpoints hold its resume offsets.",
    "members": "Stop the members of {name} on the target; the next run of the sync task sets its "
    "offsets.",
    "own progress": "Nothing to change: the group consumed on the target itself. To synchronize it "
    "again, reset it there to its translated source offset.",
}
_AFTER_FILTERS = (
    "found", "topics", "offsets", "map", "rights", "sync.group.offsets.enabled", "members",
    "own progress",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupObservation:
    """The group in one partition as a sync task last saw it; without a topic, the whole group."""

    topic: str
    partition: int
    state: str
    reason: str
    source_offset: int | None = None
    translated: int | None = None

    @property
    def where(self) -> str:
        return f"{self.topic}-{self.partition}"


def explain_group(
    group: str,
    settings: FlowSettings,
    *,
    looked_at: str = "",
    next_look: str = "",
    group_partitions: Sequence[GroupObservation] = (),
) -> Explanation:
    """Explain one group. `looked_at`: when the groups were last listed; empty if never."""
    selection = GroupSelection(settings)
    odd = next((row for row in group_partitions if row.state == "excluded"), None)
    named = selection.rules(group)
    is_wanted = all(rule.passed for rule in named)
    kind = _kind(odd if is_wanted else None)
    rules = [kind, *named]
    if not is_wanted or kind.passed is False:
        return explain(group, [*rules, *_not_asked("the flow does not select it")], GROUP_FIXES)
    if not looked_at:
        carried = f"{named[0].reason}; its offsets were not read yet"
        rules += _not_asked("the groups were not listed yet")
        return explain(group, rules, GROUP_FIXES, carried=carried)
    if not group_partitions:
        told = f"is not among the groups seen at {looked_at}. {next_look}".rstrip()
        missing = RuleVerdict("found", False, told)
        return explain(
            group, [*rules, missing, *_not_asked("the group was not found")[1:]], GROUP_FIXES
        )
    rules.append(RuleVerdict("found", True, f"was seen at {looked_at}"))
    rules += _of_partitions(
        [row for row in group_partitions if row.topic], group_partitions, settings
    )
    return explain(group, rules, GROUP_FIXES, carried=named[0].reason)


def _of_partitions(
    rows: Sequence[GroupObservation],
    group_partitions: Sequence[GroupObservation],
    settings: FlowSettings,
) -> list[RuleVerdict]:
    if not rows:
        told = (
            "; ".join(dict.fromkeys(row.reason for row in group_partitions)) or "it has no offset"
        )
        waits = all(row.state == "waiting" for row in group_partitions)
        _, topics, _, *rest = _not_asked("none of its partitions is known")
        return [topics, RuleVerdict("offsets", None if waits else False, told), *rest]
    rules: list[RuleVerdict] = []
    left = rows
    for rule, is_against, fine in _TESTS:
        hit = [row for row in left if is_against(row)]
        rules.append(_verdict(rule, hit, left, fine))
        left = [row for row in left if not is_against(row)]
    enabled = settings.sync_group_offsets_enabled
    words = "is true" if enabled else "is false: only checkpoints hold its resume offsets"
    told = f"sync.group.offsets.enabled {words}"
    at = [rule.rule for rule in rules].index("rights") + 1
    rules.insert(at, RuleVerdict("sync.group.offsets.enabled", enabled, told))
    return rules


_TESTS: tuple[tuple[str, Callable[[GroupObservation], bool], str], ...] = (
    ("topics", lambda row: row.state == "not_copied", "the flow replicates what it reads"),
    ("offsets", lambda row: row.source_offset is None, "it has offsets on the source"),
    ("map", lambda row: row.translated is None, "its resume offset on the target is known"),
    ("rights", lambda row: row.state == "failed", "Kafka rejected nothing"),
    ("members", lambda row: row.state == "active", "it has no members on the target"),
    ("own progress", lambda row: row.state == "kept", "it did not consume on the target itself"),
)


def _verdict(
    rule: str,
    hit: Sequence[GroupObservation],
    asked: Sequence[GroupObservation],
    fine: str,
) -> RuleVerdict:
    """Return no if the rule fails in every remaining partition, else yes with exceptions."""
    if not asked:
        return RuleVerdict(rule, None, "not evaluated: no partition is left")
    if not hit:
        return RuleVerdict(rule, True, fine)
    one = hit[0]
    told = f"{one.where}: {one.reason}"
    more = f" (and {len(hit) - 1} more partitions)" if len(hit) > 1 else ""
    if len(hit) == len(asked):
        return RuleVerdict(rule, False, f"{told}{more}")
    return RuleVerdict(rule, True, f"not in {len(hit)} of {len(asked)} partitions, such as {told}")


def _kind(odd: GroupObservation | None) -> RuleVerdict:
    if odd is not None:
        return RuleVerdict("kind", False, odd.reason)
    return RuleVerdict("kind", True, "is a consumer group, or not known to be another kind")


def _not_asked(why: str) -> list[RuleVerdict]:
    return [RuleVerdict(rule, None, f"not evaluated: {why}") for rule in _AFTER_FILTERS]

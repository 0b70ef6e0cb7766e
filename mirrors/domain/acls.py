"""Which access rules of topics a flow carries, by MM2's rule, and why the others stay behind.

(a) Only rules of one literally named topic that the flow copies; never one that lets write.
(b) ALLOW ALL becomes ALLOW READ: on the target only the flow writes a remote topic.
(c) Nothing is ever taken away: a rule deleted on the source stays on the target.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from mirrors.domain.filters import TopicSelection
from mirrors.domain.policy import policy_for
from mirrors.domain.specs import FlowSpec

_EXAMPLES = 3


@dataclasses.dataclass(frozen=True, order=True, kw_only=True)
class AclRule:
    """One access rule of topics, in Kafka's own words."""

    topic: str
    principal: str
    host: str
    operation: str
    permission: str
    pattern: str = "LITERAL"


def plan_acls(
    source: Iterable[AclRule], target: Iterable[AclRule], spec: FlowSpec
) -> tuple[tuple[AclRule, ...], tuple[str, ...]]:
    """Rules to make on the target, and a sentence for each kind of rule that is left out."""
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    selection = TopicSelection(spec.settings, policy)
    there = set(target)
    wanted: set[AclRule] = set()
    left: dict[str, list[AclRule]] = {}
    for rule in sorted(source):
        if (why := _obstacle(rule, selection)) is not None:
            left.setdefault(why, []).append(rule)
            continue
        operation = "READ" if rule.permission == "ALLOW" and rule.operation == "ALL" else None
        wanted.add(
            dataclasses.replace(
                rule,
                topic=policy.remote_topic(rule.topic),
                operation=operation or rule.operation,
            )
        )
    return tuple(sorted(wanted - there)), tuple(_told(why, rules) for why, rules in left.items())


def _obstacle(rule: AclRule, selection: TopicSelection) -> str | None:
    if rule.pattern != "LITERAL":
        return "of name prefixes are not carried: a prefix may cover topics that are not copied"
    if rule.topic == "*":
        return (
            "of all topics (*) are not carried: on the target they would cover topics that this "
            "flow does not write"
        )
    if rule.permission == "ALLOW" and rule.operation == "WRITE":
        return "that allow WRITE are not carried: only the flow writes its remote topics"
    if not selection.decide(rule.topic).replicated:
        return "of topics that this flow does not copy are not carried"
    return None


def _told(why: str, rules: list[AclRule]) -> str:
    names = ", ".join(sorted({rule.topic for rule in rules})[:_EXAMPLES])
    more = ", …" if len({rule.topic for rule in rules}) > _EXAMPLES else ""
    return f"Access rules {why} ({len(rules)}: {names}{more})."

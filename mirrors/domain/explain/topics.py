"""Why a topic is copied or not: the flow's own rules, then what its runner found."""

from __future__ import annotations

import dataclasses

from mirrors.domain.explain.verdicts import Explanation, explain
from mirrors.domain.filters import RuleVerdict, TopicSelection
from mirrors.domain.policy import policy_for
from mirrors.domain.priority.ranks import Ranks
from mirrors.domain.specs import FlowSpec

FIXES = {
    "topics": "Add a pattern that matches {name} to topics.",
    "topics.exclude": "Take the pattern that matches {name} out of topics.exclude.",
    "internal": "Internal topics are never copied; each cluster keeps its own.",
    "bookkeeping": "Understudy's own topics are never copied.",
    "cycle": "Nothing to change: {name} came from there, so a copy would go round in a loop.",
    "found": "Make the topic, or give the flow's principal the right to describe it. With "
    "refresh.topics.enabled=false restart the flow, so that it looks again.",
    "possible": "Take away what stands in the way; the flow looks again by itself.",
    "copying": "Look at the partitions of {name} on the tab Partitions, and at the tab Gaps.",
}
_STANDS = ("faulted", "gap")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeenTopic:
    """The topic as the flow's runner last told of it."""

    state: str
    reason: str
    at: str


def explain_topic(
    topic: str, spec: FlowSpec, *, looked_at: str = "", seen: SeenTopic | None = None
) -> Explanation:
    """`looked_at` says when the runner last looked at the source, empty when it never did."""
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    verdict = TopicSelection(spec.settings, policy).decide(topic)
    priority = _priority(topic, verdict.replicated, spec)
    rules = (*verdict.rules, priority, *_found(verdict.replicated, spec, looked_at, seen))
    return explain(topic, rules, FIXES, carried=verdict.reason)


def _priority(topic: str, wanted: bool, spec: FlowSpec) -> RuleVerdict:
    ranks = Ranks(spec.settings)
    if not wanted or not ranks.are_used:
        why = "the flow names no classes" if wanted else "the flow does not want it"
        return RuleVerdict("priority", None, f"not asked: {why}")
    return RuleVerdict("priority", True, ranks.of(topic).reason)


def _found(
    wanted: bool, spec: FlowSpec, looked_at: str, seen: SeenTopic | None
) -> tuple[RuleVerdict, ...]:
    if not wanted or not looked_at:
        why = "the flow does not want it" if not wanted else "no runner has looked yet"
        told = f"not asked: {why}"
        return tuple(RuleVerdict(rule, None, told) for rule in ("found", "possible", "copying"))
    if seen is None:
        told = (
            f"is not among the topics that the flow saw on {spec.source.alias} at {looked_at}; "
            f"{_next(spec)}"
        )
        none = "not asked: it was not found"
        return (
            RuleVerdict("found", False, told),
            RuleVerdict("possible", None, none),
            RuleVerdict("copying", None, none),
        )
    refused, stands = seen.state == "skipped", seen.state in _STANDS
    words = seen.state.replace("_", " ")
    return (
        RuleVerdict("found", True, f"was seen on {spec.source.alias} at {seen.at}"),
        RuleVerdict("possible", not refused, seen.reason if refused else "nothing is in its way"),
        RuleVerdict(
            "copying",
            None if refused else not stands,
            "not asked: it cannot be copied" if refused else f"is {words}. {seen.reason}".rstrip(),
        ),
    )


def _next(spec: FlowSpec) -> str:
    if not spec.settings.refresh_topics_enabled:
        return "refresh.topics.enabled is false, so it looks again only when it is started"
    return f"it looks every {spec.settings.refresh_topics_interval_seconds} s"

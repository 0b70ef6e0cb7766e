"""Why a topic is copied or not: every rule of a flow in order, and what to change."""

from __future__ import annotations

import dataclasses
from typing import Any

from mirrors.domain.filters import TopicSelection
from mirrors.domain.policy import policy_for
from mirrors.models import Flow
from mirrors.services.flows import spec_of

_FIXES = {
    "topics": "Add a pattern that matches {topic} to topics.",
    "topics.exclude": "Take the pattern that matches {topic} out of topics.exclude.",
    "internal": "Internal topics are never copied; each cluster keeps its own.",
    "bookkeeping": "Understudy's own topics are never copied.",
    "cycle": "Nothing to change: {topic} came from there, so a copy would go round in a loop.",
}


def explain_topic(*, flow: Flow, topic: str) -> dict[str, Any]:
    """The verdict on a topic name, whether it exists or not."""
    settings = spec_of(flow).settings
    policy = policy_for(settings, flow.source.alias, flow.target.alias)
    verdict = TopicSelection(settings, policy).decide(topic)
    failed = next((rule.rule for rule in verdict.rules if rule.passed is False), None)
    return {
        "topic": topic,
        "remote_topic": policy.remote_topic(topic) if verdict.replicated else None,
        "replicated": verdict.replicated,
        "reason": verdict.reason,
        "rules": [dataclasses.asdict(rule) for rule in verdict.rules],
        "fix": _FIXES.get(failed or "", "").format(topic=topic) or None,
    }

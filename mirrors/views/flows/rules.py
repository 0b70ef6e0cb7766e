"""The rules of a flow with the replicated topics to which each applies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from mirrors.domain.transforms.rules import (
    TRANSFORMS,
    TransformRule,
    effect_of,
    first_match,
    parse_rules,
    routes_of,
    rule_for,
)
from mirrors.models import Flow, FlowTopic
from mirrors.models.account import dead_letters_of

_EXAMPLES = 3


def mark_effects(flow: Flow, topics: Iterable[FlowTopic]) -> None:
    """Set `effect` of each replicated topic: which rule applies to it and what it does, if any.

    `dead_letters`: how many of its records are in the dead-letter topic. The flow is one of
    `with_dead_letters`.
    """
    letters = dead_letters_of(flow.pk) if flow.dead_letters else {}  # type: ignore[attr-defined]
    rules = parse_rules(flow.properties.get(TRANSFORMS, ""))
    for row in topics:
        row.effect = _effect(row, rules)  # type: ignore[attr-defined]
        row.dead_letters = letters.get((flow.pk, row.topic), 0)  # type: ignore[attr-defined]


def _effect(row: FlowTopic, rules: Sequence[TransformRule]) -> str:
    is_replicated = row.remote_topic is not None and row.state != "skipped"
    applies = is_replicated and first_match(row.topic, rules) is not None
    return effect_of(row.topic, rules) if applies else ""


def rule_of_topic(flow: Flow, row: FlowTopic) -> dict[str, Any]:
    """`effect`: what the rule of the topic does, empty without one. `routes`: further topics."""
    rules = parse_rules(flow.properties.get(TRANSFORMS, ""))
    effect = _effect(row, rules)
    return {"effect": effect, "routes": routes_of(row.topic, rules) if effect else ()}


def rules_with_topics(flow: Flow) -> list[dict[str, Any]]:
    """Each rule, and the topics that the flow replicated when it was last seen."""
    rules = parse_rules(flow.properties.get(TRANSFORMS, ""))
    if not rules:
        return []
    names = FlowTopic.objects.filter(flow=flow, remote_topic__isnull=False).exclude(state="skipped")
    matched: dict[int, list[str]] = defaultdict(list)
    for topic in names.order_by("topic").values_list("topic", flat=True):
        if (match := first_match(topic, rules)) is not None:
            matched[match[0]].append(topic)
    return [
        {
            "number": number,
            "topics": rule.topics,
            "where": rule.where,
            "changes": "; ".join(
                [
                    *(f"{at} = {text}" for at, text in rule.expressions.items() if at != "where"),
                    *(["headers with the origin"] if rule.provenance else []),
                    *(f"user code {module}" for module in rule.modules),
                ]
            ),
            "on_error": rule.on_error.replace("_", " ") if rule.expressions else "",
            "matched": len(matched[number]),
            "examples": ", ".join(matched[number][:_EXAMPLES]),
        }
        for number, rule in enumerate(rules, 1)
    ]


def first_topic(flow: Flow) -> str:
    """A replicated topic that a rule changes, for a first preview; empty without one."""
    rules = parse_rules(flow.properties.get(TRANSFORMS, ""))
    rows = FlowTopic.objects.filter(flow=flow, remote_topic__isnull=False).exclude(state="skipped")
    names = list(rows.order_by("topic").values_list("topic", flat=True)[:1000])
    return next((name for name in names if rule_for(name, rules)), names[0] if names else "")

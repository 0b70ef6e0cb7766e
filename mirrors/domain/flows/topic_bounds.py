"""Whether an edit of a flow reaches topics beyond those that its clusters allow for its labels.

A cluster without `label.topics` allows all. One with it allows a flow the topics of its labels, and
those that the flow reached before: other edits never become impossible.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from mirrors.domain.flows.written_names import FlowNames
from mirrors.domain.patterns.name_sets import (
    Language,
    Undecided,
    both,
    either,
    example,
    invert,
    text,
)
from mirrors.domain.patterns.parser import of_patterns
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.settings.value_types import LABEL_TOPICS, LabelTopics
from mirrors.domain.specs import ClusterSpec, FlowSpec


@dataclasses.dataclass(frozen=True)
class Beyond:
    """A topic that an edit would add; `topic` is empty if the names cannot be compared."""

    cluster: str
    topic: str
    does: str

    def sentence(self, labels: Collection[str]) -> str:
        whose = f"the labels {', '.join(sorted(labels))}" if labels else "no label"
        what = f"{self.does} {self.topic}" if self.topic else "reach topics that cannot be compared"
        return (
            f"It would {what} on {self.cluster}, and {LABEL_TOPICS} of that cluster does not allow "
            f"that to editors of a flow with {whose}. Ask an admin of {self.cluster} to add it, or "
            "somebody who may edit flows on both clusters to save it."
        )


def beyond_labels(
    before: FlowSpec | None, after: FlowSpec, labels: Collection[str]
) -> Beyond | None:
    """What an edit adds beyond the labels of the flow, the first example; None for nothing.

    `before`: as it is stored; None if it cannot be read.
    """
    sides = (
        (after.source, "select", _selected),
        (after.target, "write", _written),
    )
    for cluster, does, names_of in sides:
        if LABEL_TOPICS not in cluster.properties:
            continue
        try:
            allowed = [_allowed(cluster, labels)]
            if before is not None and (names_of is _selected or _is_named_alike(before, after)):
                allowed.append(names_of(before))
            topic = example(both(names_of(after), invert(either(*allowed))))
        except Undecided:
            topic = ""
        if topic is not None:
            return Beyond(cluster.alias, topic, does)
    return None


def _allowed(cluster: ClusterSpec, labels: Collection[str]) -> Language:
    rules = LabelTopics().parse(cluster.properties[LABEL_TOPICS])
    # Each expression by itself: a flag within one does not hold in the next.
    return either(*(of_patterns([one]) for label in labels for one in rules.get(label, ())))


def _selected(spec: FlowSpec) -> Language:
    return _names(spec).topics()


def _written(spec: FlowSpec) -> Language:
    """What it copies to, its routes and its dead letters."""
    others = [route for rule in spec.settings.transforms for route in rule.routes]
    if spec.settings.dead_letter_topic is not None:
        others.append(spec.settings.dead_letter_topic)
    return either(_names(spec).remote_topics(), *map(text, others))


def _is_named_alike(one: FlowSpec, other: FlowSpec) -> bool:
    """With other rules the names before are no excuse: `_written` may hold more than is written."""
    return one.settings.topic_rename == other.settings.topic_rename


def _names(spec: FlowSpec) -> FlowNames:
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    return FlowNames(spec, policy, spec.source.alias, spec.target.alias)

"""Which topics flows read and write, as sets of names, and refusals of `topic.rename` by them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.filters.topics import TopicSelection, shared_names
from mirrors.domain.patterns.name_sets import (
    ANY,
    EVERY,
    Language,
    Undecided,
    both,
    either,
    example,
    invert,
    one,
    text,
    then,
)
from mirrors.domain.patterns.parser import of_patterns
from mirrors.domain.patterns.renamed_names import contains, named_by
from mirrors.domain.patterns.renames import (
    RENAME,
    literal_of,
    name_problem,
    template_parts,
)
from mirrors.domain.replication_policy import HEARTBEATS, ReplicationPolicy
from mirrors.domain.settings.flow_control import SKIP
from mirrors.domain.specs import FlowSpec

_MOST_SAMPLES = 50
_NOT_EMPTY = then(one(EVERY), ANY)


@dataclasses.dataclass(frozen=True)
class FlowNames:
    """A flow between clusters; two aliases that share an address or an id are one cluster."""

    spec: FlowSpec
    policy: ReplicationPolicy
    source: str
    target: str

    @property
    def keeps_names(self) -> bool:
        return self.policy.kind == "identity"

    @property
    def prefix(self) -> str:
        return "" if self.keeps_names else f"{self.policy.source_alias}{self.policy.separator}"

    def topics(self) -> Language:
        """Return the source topics that it replicates, without heartbeats and cycles."""
        settings = self.spec.settings
        internal = self.policy.internal_separator
        end = text(f"{internal}internal")
        unwanted = either(
            of_patterns(settings.topics_exclude),
            then(text("__"), ANY),
            then(text("."), ANY),
            then(then(text("mm2"), ANY), end),
            then(ANY, then(text(f"{internal}checkpoints"), end)),
            then(ANY, text(HEARTBEATS)),
        )
        return both(of_patterns(settings.topics), _NOT_EMPTY, invert(unwanted))

    def remote_topics(self, of: Language = ANY) -> Language:
        """Return the names on the target of those of these source topics that it replicates.

        With `topic.rename` the set may be larger than what the rules give. Raises Undecided.
        """
        topics = both(of, self.topics())
        if not self.policy.renames:
            return then(text(self.prefix), topics)
        named, rest = named_by(self.policy.renames.rules, topics)
        return either(named, then(text(self.prefix), rest))

    def may_write(self, topic: str) -> bool:
        """Return whether it would copy records into this topic, if the source had them."""
        if self.policy.renames:
            try:
                return example(both(self.remote_topics(), text(topic))) is not None
            except Undecided:
                return True
        if not topic.startswith(self.prefix):
            return False
        selection = TopicSelection(self.spec.settings, self.policy)
        return selection.decide(topic.removeprefix(self.prefix)).replicated

    def names(self, topic: str) -> bool:
        """Return whether its settings contain the topic as a literal name."""
        return any(element.replace("\\", "") == topic for element in self.spec.settings.topics)

    def without_cycles(self, topics: Language) -> Language:
        """Return the topics that the cycle rule does not stop."""
        if self.keeps_names:
            return topics
        separator = self.policy.separator
        stopped = [
            then(before, then(text(f"{alias}{separator}"), _NOT_EMPTY))
            for alias in {self.policy.source_alias, self.policy.target_alias}
            if alias is not None
            for before in (text(""), then(ANY, text(separator)))
        ]
        return both(topics, invert(either(*stopped)))


def check_growing_names(path: Sequence[FlowNames]) -> None:
    """Raise InvalidSettings if each trip around the path gives a topic another name.

    `skip.replicated` stops the records, but the flows would create topics for ever. Names are tried
    with one topic for each rule.
    """
    for first in range(len(path)):
        steps = [*path[first:], *path[:first]]
        for topic in _samples(steps[0]):
            once = _trip(steps, topic)
            twice = None if once in (None, topic) else _trip(steps, once or "")
            if twice is None or twice == once:
                continue
            names = " and ".join(dict.fromkeys(step.spec.name for step in steps))
            sentence = (
                f"{names} would create topics for ever: {topic} on {steps[0].spec.source.alias} "
                f"returns as {once}, and that as {twice}. Exclude topics that came from there, or "
                f"let {RENAME} of one flow give back the names that the other one changed."
            )
            raise InvalidSettings({RENAME: [sentence]})


def _samples(flow: FlowNames) -> list[str]:
    """Return a topic for each rule that names any, and one that the policy names."""
    found = []
    try:
        left = flow.topics()
        for rule in flow.policy.renames.rules[:_MOST_SAMPLES]:
            own = of_patterns([rule.pattern])
            found.append(example(both(own, left)))
            left = both(left, invert(own))
        found.append(example(left))
    except Undecided:
        pass
    return [topic for topic in found if topic is not None]


def _trip(path: Sequence[FlowNames], topic: str) -> str | None:
    """Return the topic's name after all flows of the path; None if one does not replicate it."""
    for step in path:
        if not TopicSelection(step.spec.settings, step.policy).decide(topic).replicated:
            return None
        topic = step.policy.remote_topic(topic)
        if name_problem(topic) is not None:
            return None
    return topic


def check_renamed_loop(path: Sequence[FlowNames]) -> None:
    """Raise InvalidSettings if flows that rename topics return records to their cluster.

    No name tells where a renamed topic came from, so the cycle rule does not see it.
    """
    for first in range(len(path)):
        steps = [*path[first:], *path[:first]]
        last = steps[-1]
        try:
            topics = steps[0].topics()
            for step in steps[:-1]:
                topics = step.remote_topics(step.without_cycles(topics))
            returned = both(last.without_cycles(topics), last.topics())
            if len(steps) == 1:
                returned = both(last.remote_topics(), last.topics())
            topic = example(returned)
        except Undecided:
            topic = "?"
        if topic is not None:
            raise InvalidSettings({RENAME: [_loop_sentence(topic, steps)]})


def _loop_sentence(topic: str, steps: Sequence[FlowNames]) -> str:
    origin, last = steps[0].spec.source.alias, steps[-1].spec
    names = " and ".join(dict.fromkeys(step.spec.name for step in steps))
    if topic == "?":
        said = f"Cannot determine whether {names} return renamed topics to {origin}"
        return f"{said}. List the topics by name, or use simpler expressions in {RENAME}."
    return (
        f"{names} would return records to {origin}: {topic} on {last.source.alias} can be a copy "
        f"of a topic of {origin}, and {last.name} selects it. A new name hides the origin from the "
        f"cycle rule. Exclude such topics from {last.name}, or set {SKIP}=true on each of these "
        "flows."
    )


def check_renames(flow: FlowNames) -> list[str]:
    """Return warnings about the rules of `topic.rename`. Raises InvalidSettings.

    A rule for an internal topic, and two topics of one name that the settings both contain, are
    refused.
    """
    policy, rules = flow.policy, flow.policy.renames.rules
    for number, rule in enumerate(rules, 1):
        topic = literal_of(rule.pattern)
        if topic is not None and policy.is_reserved(topic):
            sentence = (
                f"{RENAME}, rule {number}: {topic} keeps the name that the replication policy "
                "gives, because it is the name of an internal or heartbeats topic. Remove the rule."
            )
            raise InvalidSettings({RENAME: [sentence]})
    _check_known_names(flow)
    return _warnings(flow) if rules else []


def _check_known_names(flow: FlowNames) -> None:
    """Raise InvalidSettings if two topics that the settings contain by name have one name."""
    if not flow.policy.renames:
        return
    selection = TopicSelection(flow.spec.settings, flow.policy)
    elements = [*flow.spec.settings.topics, *(rule.pattern for rule in flow.policy.renames.rules)]
    names = {topic for element in elements if (topic := literal_of(element)) is not None}
    check_collisions(flow.policy, (name for name in names if selection.decide(name).replicated))


def check_collisions(policy: ReplicationPolicy, topics: Iterable[str]) -> None:
    """Raise InvalidSettings if two of these replicated topics would have one remote topic."""
    for remote, names in shared_names(topics, policy).items():
        sentence = (
            f"{RENAME} gives {' and '.join(names[:5])} one name on the target, {remote}: their "
            "records would be mixed. Give each topic a name of its own, or exclude one."
        )
        raise InvalidSettings({RENAME: [sentence]})


def _warnings(flow: FlowNames) -> list[str]:
    found = []
    rules = flow.policy.renames.rules
    try:
        left = flow.topics()
        for number, rule in enumerate(rules, 1):
            which = f"Rule {number} ({rule}) of {RENAME}"
            none = f"{which} names no topic: the flow selects none that reaches it."
            topic = literal_of(rule.pattern)
            if topic is not None:
                found += [] if contains(left, topic) else [none]
                continue
            own = of_patterns([rule.pattern])
            if example(both(own, left)) is None:
                found.append(none)
            elif not _has_group(template_parts(rule)):
                found.append(
                    f"{which} gives every topic that it matches one name. Only one can be "
                    "replicated."
                )
            left = both(left, invert(own))
    except Undecided:
        pass
    return found


def _has_group(parts: Sequence[str | int]) -> bool:
    return any(isinstance(part, int) for part in parts)

"""Which topics and topic configs a flow selects: rule by rule, each with its reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from mirrors.domain.cluster_snapshot import DEFAULT, STATIC_BROKER, ConfigEntry
from mirrors.domain.patterns.matcher import NamePatterns, literal_name
from mirrors.domain.patterns.name_sets import Undecided, both, example, invert
from mirrors.domain.patterns.parser import of_patterns
from mirrors.domain.patterns.renames import RENAME, name_problem
from mirrors.domain.replication_policy import ReplicationPolicy
from mirrors.domain.specs import FlowSettings

# Where Confluent's schema registry, and Karapace, store their schemas by default.
SCHEMAS_TOPIC: Final = "_schemas"
_MOST_NAMED: Final = 3


@dataclasses.dataclass(frozen=True)
class RuleVerdict:
    """The verdict of one rule. `passed` is None if the rule was not checked."""

    rule: str
    passed: bool | None
    reason: str


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether a topic is replicated. `reason` is that of the first rule that failed."""

    replicated: bool
    reason: str
    rules: tuple[RuleVerdict, ...]


class TopicSelection:
    """MM2's selection of topics for one flow; it also excludes Understudy's internal topics."""

    def __init__(self, settings: FlowSettings, policy: ReplicationPolicy) -> None:
        self._settings = settings
        self._policy = policy
        self._include = NamePatterns(settings.topics)
        self._exclude = NamePatterns(settings.topics_exclude)
        self._literal = {literal_name(element) for element in settings.topics}

    def decide(self, topic: str) -> Verdict:
        rules = (
            *self._named(topic),
            self._internal(topic),
            self._bookkeeping(topic),
            self._cycle(topic),
        )
        failed = next((rule for rule in rules if rule.passed is False), None)
        passed = next(rule for rule in rules if rule.passed is not None)
        return Verdict(failed is None, (failed or passed).reason, rules)

    def _named(self, topic: str) -> tuple[RuleVerdict, ...]:
        carried = self._settings.heartbeats_replication_enabled
        if carried and self._policy.is_own_heartbeats_topic(topic):
            reason = "is a heartbeats topic, which heartbeats.replication.enabled replicates"
            return (
                RuleVerdict("heartbeats.replication.enabled", True, reason),
                RuleVerdict("topics", None, "not evaluated: a heartbeats topic"),
                # MM2 does not ask; here what a person excludes is excluded.
                self._excluded(topic),
            )
        return (
            RuleVerdict("heartbeats.replication.enabled", None, "is not a heartbeats topic"),
            self._included(topic),
            self._excluded(topic),
        )

    def _included(self, topic: str) -> RuleVerdict:
        if not self._settings.topics:
            return RuleVerdict("topics", False, "topics is empty, so it matches nothing")
        if not self._include.matches(topic):
            return RuleVerdict("topics", False, "matches no element of topics")
        return RuleVerdict("topics", True, f"matches topics ({self._include.first_match(topic)})")

    def _excluded(self, topic: str) -> RuleVerdict:
        if self._exclude.matches(topic):
            element = self._exclude.first_match(topic)
            return RuleVerdict("topics.exclude", False, f"matches topics.exclude ({element})")
        return RuleVerdict("topics.exclude", True, "matches no element of topics.exclude")

    def _internal(self, topic: str) -> RuleVerdict:
        if self._policy.is_own_internal_topic(topic):
            return RuleVerdict("internal", False, "is an internal topic of MirrorMaker 2")
        if self._policy.is_mm2_internal_topic(topic) and topic not in self._literal:
            reason = (
                "has the name of an internal topic of MirrorMaker 2; to replicate it, name it in "
                "topics without a wildcard"
            )
            return RuleVerdict("internal", False, reason)
        if topic.startswith("__"):
            return RuleVerdict("internal", False, "begins with __, as Kafka's internal topics do")
        if topic == SCHEMAS_TOPIC and topic not in self._literal:
            reason = (
                "holds the schemas of a registry, and a registry that reads a copy of it must not "
                "be written to; to replicate it for a standby registry, name it in topics without "
                "a wildcard"
            )
            return RuleVerdict("internal", False, reason)
        if topic.startswith("."):
            return RuleVerdict(
                "internal", False, "begins with a dot, so MirrorMaker 2 treats it as internal"
            )
        return RuleVerdict("internal", True, "is not an internal topic")

    def _bookkeeping(self, topic: str) -> RuleVerdict:
        if is_understudy_topic(topic):
            return RuleVerdict(
                "bookkeeping", False, "holds Understudy's own positions or offset runs"
            )
        return RuleVerdict("bookkeeping", True, "is not one of Understudy's topics")

    def _cycle(self, topic: str) -> RuleVerdict:
        if not self._policy.is_cycle(topic):
            return RuleVerdict("cycle", True, "does not originate from this flow's clusters")
        chain = " and ".join(dict.fromkeys(self._policy.chain(topic)))
        reason = f"already originates from {chain}: replicating it would create a loop"
        return RuleVerdict("cycle", False, reason)


def is_understudy_topic(topic: str) -> bool:
    """Return whether it is one of Understudy's topics, whose dots are literal."""
    return topic.startswith(("mm2-positions.", "mm2-runs.")) and topic.endswith(".internal")


@dataclasses.dataclass(frozen=True)
class SelectionPreview:
    """What a flow's settings select among the topics of a source.

    - `selected`, `excluded`: numbers of topics that are replicated; that match `topics`, and are
      not replicated by another rule.
    - `rows`: the first of each, in order of their names.
    - `missing`: literal names in `topics` that the source does not have.
    """

    selected: int
    excluded: int
    rows: tuple[PreviewRow, ...]
    missing: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class PreviewRow:
    topic: str
    remote_topic: str
    replicated: bool
    reason: str


def preview_selection(
    settings: FlowSettings, policy: ReplicationPolicy, names: Collection[str], *, most: int
) -> SelectionPreview:
    """Apply the rules to each name; `most` limits the rows of each kind, not the numbers."""
    selection = TopicSelection(settings, policy)
    rows: dict[bool, list[PreviewRow]] = {True: [], False: []}
    counts = {True: 0, False: 0}
    taken = shared_names((name for name in names if selection.decide(name).replicated), policy)
    for name in sorted(names):
        verdict = selection.decide(name)
        if not verdict.replicated and not _is_matched(verdict):
            continue
        if (problem := naming_problem(name, policy, taken)) and verdict.replicated:
            verdict = Verdict(False, problem, verdict.rules)
        counts[verdict.replicated] += 1
        if len(rows[verdict.replicated]) < most:
            remote = policy.remote_topic(name) if verdict.replicated else ""
            reason = verdict.reason
            if verdict.replicated and (named := naming_reason(name, policy)):
                reason = f"{reason}; {named}"
            row = PreviewRow(name, remote, verdict.replicated, reason)
            rows[verdict.replicated].append(row)
    missing = tuple(literal_names(settings.topics, names))
    return SelectionPreview(counts[True], counts[False], (*rows[True], *rows[False]), missing)


def naming_reason(topic: str, policy: ReplicationPolicy) -> str:
    """Return a clause which rule of `topic.rename` names a remote topic; empty without rules."""
    if not policy.renames:
        return ""
    renamed = policy.renamed(topic)
    if renamed is not None:
        return f"rule {renamed.number} of {RENAME} ({renamed.rule}) names it {renamed.name}"
    remote = policy.remote_topic(topic)
    if policy.is_reserved(topic):
        return f"{RENAME} does not apply to names of internal topics, so it is named {remote}"
    return f"no rule of {RENAME} matches, so the replication policy names it {remote}"


def shared_names(topics: Iterable[str], policy: ReplicationPolicy) -> dict[str, list[str]]:
    """Return the remote topics that several of these source topics would have, with those."""
    if not policy.renames:
        return {}
    found: dict[str, list[str]] = {}
    for topic in sorted(topics):
        found.setdefault(policy.remote_topic(topic), []).append(topic)
    return {remote: names for remote, names in found.items() if len(names) > 1}


def naming_problem(
    topic: str, policy: ReplicationPolicy, shared: Mapping[str, Sequence[str]], owner: str = ""
) -> str | None:
    """Return why a selected topic cannot have its remote name; None if it can.

    - `shared`: as `shared_names` returns it.
    - `owner`: the source topic of whose records the remote topic has copies; empty if unknown.
    """
    renamed = policy.renamed(topic)
    remote = policy.remote_topic(topic)
    if renamed is not None:
        problem = name_problem(remote)
        if problem is None and policy.is_reserved(remote):
            problem = "is reserved for internal topics"
        if problem is not None:
            return (
                f"its name by rule {renamed.number} of {RENAME} ({renamed.rule}) {problem}. "
                "Change the rule, or exclude the topic"
            )
    others = [name for name in shared.get(remote, ()) if name != topic]
    if not others or owner == topic:
        return None
    holder = owner or ", ".join(others[:_MOST_NAMED]) + (", …" if others[_MOST_NAMED:] else "")
    holds = "is the remote topic of" if owner else "would also be the remote topic of"
    return (
        f"its remote topic {remote} {holds} {holder}: their records would be mixed. Add a rule to "
        f"{RENAME} that gives it another name, or exclude the topic"
    )


def _is_matched(verdict: Verdict) -> bool:
    return any(rule.rule == "topics" and rule.passed for rule in verdict.rules)


class ConfigSelection:
    """Which configs of a source topic a remote topic gets, by MM2's rules."""

    def __init__(self, settings: FlowSettings) -> None:
        self._exclude = NamePatterns(settings.config_properties_exclude)
        self._defaults_too = settings.use_defaults_from == "source"

    def keeps(self, name: str) -> bool:
        return not self._exclude.matches(name)

    def at_creation(self, configs: dict[str, ConfigEntry]) -> dict[str, str]:
        return {name: value for name, value in self.later(configs).items() if value is not None}

    def later(self, configs: dict[str, ConfigEntry]) -> dict[str, str | None]:
        """Return the values for an existing remote topic; None is the topic's default."""
        return {
            name: None if entry.source == DEFAULT and not self._defaults_too else entry.value
            for name, entry in sorted(configs.items())
            if entry.value is not None and self._carried(name, entry)
        }

    def _carried(self, name: str, entry: ConfigEntry) -> bool:
        if entry.read_only or entry.sensitive or entry.source == STATIC_BROKER:
            return False
        return self.keeps(name)


def literal_names(elements: Sequence[str], listed: Collection[str]) -> list[str]:
    """Return literal names in a list of patterns that are not listed and match no listed topic."""
    found = []
    for element in elements:
        name = literal_name(element)
        if name is None or name in listed:
            continue
        pattern = NamePatterns([element])
        if not any(pattern.matches(other) for other in listed):
            found.append(name)
    return found


def example_name(settings: FlowSettings) -> str | None:
    """Return a name that `topics` selects and `topics.exclude` does not; None if none is found."""
    try:
        wanted = of_patterns(settings.topics)
        unwanted = of_patterns(settings.topics_exclude)
        return example(both(wanted, invert(unwanted)))
    except Undecided:
        return None

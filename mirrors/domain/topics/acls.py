"""Which ACLs a flow replicates, under which names, and why others are not.

With `sync.acls.scope=topics`, MM2's rules:
(a) Only ACLs of one literal topic name that the flow replicates; never one that allows writes.
(b) ALLOW ALL becomes ALLOW READ: on the target only the flow writes a remote topic.
(c) ACLs are never deleted: one that was deleted on the source stays on the target.

With `complete` also ACLs of name prefixes and of consumer groups, and instead of (c):
(d) An ACL is deleted if no ACL on the source leads to it, and only if this flow created it where
none existed.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Mapping

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.filters.groups import GroupSelection
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.patterns.renames import RENAME, format_renames
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import ClusterSpec, FlowSettings, FlowSpec

WRITE_RULES = "write_rules"
UNREAD_RULES = "unread_rules"
# How the sentences of plans begin that were stored without codes.
_BEGAN = {
    WRITE_RULES: "Access rules that allow WRITE are not carried",
    UNREAD_RULES: "Access rules are not part of this plan.",
}


def sentences_with(
    code: str, left_out: Iterable[str], codes: Mapping[str, str] | None
) -> list[str]:
    """Return the sentences of a plan with this code. `codes` is None if none were stored."""
    if codes is None:
        return [sentence for sentence in left_out if sentence.startswith(_BEGAN[code])]
    return [sentence for sentence in left_out if codes.get(sentence) == code]


TOPIC, GROUP = "TOPIC", "GROUP"
LITERAL, PREFIXED = "LITERAL", "PREFIXED"
ALL_NAMES = "*"
_WRITE_LEFT = "that allow WRITE are not synchronized: only the flow writes its remote topics"
_EXAMPLES = 3


@dataclasses.dataclass(frozen=True, order=True, kw_only=True)
class AclRule:
    """One ACL of topics or consumer groups, in Kafka's terms."""

    resource: str = TOPIC
    name: str
    principal: str
    host: str
    operation: str
    permission: str
    pattern: str = LITERAL

    @property
    def where(self) -> str:
        of = self.resource.lower()
        return f"{of} prefix {self.name}" if self.pattern == PREFIXED else f"{of} {self.name}"

    @property
    def summary(self) -> str:
        return f"{self.permission} {self.operation} for {self.principal} from host {self.host}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExistingNames:
    """Existing names, which decide what a prefix covers."""

    source_topics: frozenset[str] = frozenset()
    target_topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, kw_only=True)
class AclPlan:
    """ACLs to create and to delete on the target, and a sentence for each kind that is left out.

    - `codes`: the codes of sentences that programs use.
    - `gone`: ACLs that the flow created, that the target no longer has, and that are not needed.
    """

    make: tuple[AclRule, ...] = ()
    take: tuple[AclRule, ...] = ()
    gone: tuple[AclRule, ...] = ()
    left: tuple[str, ...] = ()
    codes: Mapping[str, str] = dataclasses.field(default_factory=dict)


def is_complete(spec: FlowSpec) -> bool:
    return spec.settings.sync_acls_scope == "complete"


def plan_acls(
    source: Iterable[AclRule],
    target: Iterable[AclRule],
    spec: FlowSpec,
    *,
    names: ExistingNames | None = None,
    ours: frozenset[AclRule] = frozenset(),
    shared_with: str = "",
) -> AclPlan:
    """Return the plan. `ours`: created by this flow. `shared_with`: a flow that may need them."""
    carrier = _AclTranslator(spec, names or ExistingNames())
    theirs, there = sorted(source), set(target)
    wanted: set[AclRule] = set()
    left: dict[str, list[AclRule]] = {}
    for rule in theirs:
        if (why := carrier.obstacle(rule)) is not None:
            left.setdefault(why, []).append(rule)
        else:
            wanted.add(carrier.carried(rule))
    asked_for = {carrier.carried(rule) for rule in theirs if not _lets_write(rule)}
    take: list[AclRule] = []
    for rule in sorted((ours & there) - asked_for) if is_complete(spec) else ():
        if shared_with and carrier.is_shared(rule):
            why = f"that the source no longer has are not deleted: {shared_with} may need them"
            left.setdefault(why, []).append(rule)
        else:
            take.append(rule)
    told = {why: _told(why, rules) for why, rules in left.items()}
    return AclPlan(
        make=tuple(sorted(wanted - there)),
        take=tuple(take),
        gone=tuple(sorted(ours - there - wanted)),
        left=tuple(told.values()),
        codes={told[_WRITE_LEFT]: WRITE_RULES} if _WRITE_LEFT in told else {},
    )


class _AclTranslator:
    """Target names and obstacles of one flow's ACLs."""

    def __init__(self, spec: FlowSpec, names: ExistingNames) -> None:
        self._complete = is_complete(spec)
        self._policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
        self._topics = TopicSelection(spec.settings, self._policy)
        self._groups = GroupSelection(spec.settings)
        self._names = names
        copied = (name for name in names.source_topics if self._topics.decide(name).replicated)
        self._copied = frozenset(copied)
        self._written = {self._policy.remote_topic(name) for name in self._copied}

    def carried(self, rule: AclRule) -> AclRule:
        """Return the ACL with the target's names."""
        if rule.resource == GROUP:
            return rule
        allow_all = rule.permission == "ALLOW" and rule.operation == "ALL"
        everything = rule.name == ALL_NAMES and rule.pattern == LITERAL and self._prefixes
        prefix = rule.pattern == PREFIXED or everything
        name = "" if everything else rule.name
        if not prefix:
            name = self._policy.remote_topic(name)
        elif self._prefixes:
            name = f"{self._policy.source_alias}{self._policy.separator}{name}"
        return dataclasses.replace(
            rule,
            name=name,
            pattern=PREFIXED if prefix else rule.pattern,
            operation="READ" if allow_all else rule.operation,
        )

    def is_shared(self, rule: AclRule) -> bool:
        """Return whether another flow into the same target may create it, by its name."""
        return rule.resource == GROUP or not self._prefixes or bool(self._policy.renames)

    def obstacle(self, rule: AclRule) -> str | None:
        if rule.resource == GROUP:
            return self._group_obstacle(rule)
        if not self._complete and rule.pattern != LITERAL:
            return (
                "of name prefixes are not synchronized: a prefix may cover topics that are not "
                "replicated"
            )
        if self._policy.renames and (rule.pattern != LITERAL or rule.name == ALL_NAMES):
            return (
                "of name prefixes and of all topics (*) are not synchronized: topic.rename gives "
                "remote topics other names"
            )
        if rule.name == ALL_NAMES and not (self._complete and self._prefixes):
            return (
                "of all topics (*) are not synchronized: on the target they would cover topics "
                "that this flow does not write"
            )
        if _lets_write(rule):
            return _WRITE_LEFT
        if rule.pattern == PREFIXED:
            return self._prefix_obstacle(rule)
        if rule.name != ALL_NAMES and not self._topics.decide(rule.name).replicated:
            return "of topics that this flow does not replicate are not synchronized"
        return None

    @property
    def _prefixes(self) -> bool:
        """Whether the names of remote topics contain their source."""
        return self._policy.kind == "default"

    def _prefix_obstacle(self, rule: AclRule) -> str | None:
        if not any(name.startswith(rule.name) for name in self._copied):
            return "of prefixes that match no topic of this flow are not synchronized"
        if self._prefixes:
            return None
        others = self._names.target_topics - self._written
        if any(name.startswith(rule.name) for name in others):
            return "of prefixes that also match other topics of the target are not synchronized"
        return None

    def _group_obstacle(self, rule: AclRule) -> str | None:
        if not self._complete:
            return "of consumer groups are not synchronized: sync.acls.scope is topics"
        if rule.name == ALL_NAMES and rule.pattern == LITERAL:
            return (
                "of all groups (*) are not synchronized: on the target they would cover its own "
                "groups"
            )
        if rule.pattern == PREFIXED:
            chosen = (
                name
                for name in self._names.groups
                if name.startswith(rule.name) and self._groups.decide(name).chosen
            )
            if next(chosen, None) is None:
                return "of prefixes that match no group of this flow are not synchronized"
            return None
        if not self._groups.decide(rule.name).chosen:
            return "of groups that this flow does not select are not synchronized"
        return None


def _lets_write(rule: AclRule) -> bool:
    return rule.resource == TOPIC and rule.permission == "ALLOW" and rule.operation == "WRITE"


def _told(why: str, rules: list[AclRule]) -> str:
    names = ", ".join(sorted({rule.name for rule in rules})[:_EXAMPLES])
    more = ", …" if len({rule.name for rule in rules}) > _EXAMPLES else ""
    return f"ACLs {why} ({len(rules)}: {names}{more})."


# How a plan that could not read the rules says so: to look at that is not to look at them.
NOT_IN_PLAN = "ACLs are not part of this plan."
NOT_SEEN = (
    "Nobody has reviewed the ACLs that it would create. Review them on the flow's Plan tab, then "
    "press Synchronize ACLs (or POST plan/follow/ with the plan's digest)."
)
SEEN_OTHERWISE = (
    "The reviewed ACLs are outdated: {keys} changed since. Review the new plan, then press "
    "Synchronize ACLs again."
)
# Settings that change which rules are made, or of which names.
_SHAPE = (
    "sync.acls.scope",
    "replication.policy.class",
    "replication.policy.separator",
    RENAME,
)


def approved_settings(settings: FlowSettings) -> dict[str, str]:
    """Return the settings that an approval covers; effects of the filters are visible anyway."""
    found = {key: str(getattr(settings, key.replace(".", "_"))) for key in _SHAPE}
    return {**found, RENAME: format_renames(settings.topic_rename)}


def why_acls_wait(settings: FlowSettings, seen: dict[str, str] | None) -> str:
    """Return why the sync task may not begin yet, or "". `seen`: the approved settings."""
    if seen is None:
        return NOT_SEEN
    now = approved_settings(settings)
    # An approval of an earlier version has no rules for names: there were none.
    if changed := [key for key in _SHAPE if seen.get(key, "") != now[key]]:
        return SEEN_OTHERWISE.format(keys=" and ".join(changed))
    return ""


_BY_NAME = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def grant_command(cluster: ClusterSpec, operation: str, *, topic: str) -> str:
    """Return a kafka-acls.sh command. `operation` is Kafka's name (`Describe`, `Read`).

    The principal's name is unknown here unless it logs in with a user name.
    """
    principal = "User:<principal>"
    if cluster.sasl_mechanism in _BY_NAME and cluster.security_protocol.startswith("SASL"):
        principal = f"User:{cluster.sasl_username}"
    return (
        f"kafka-acls.sh --bootstrap-server {shlex.quote(cluster.bootstrap_servers)} --add "
        f"--allow-principal {shlex.quote(principal)} --operation {operation} "
        f"--topic {shlex.quote(topic)}"
    )


def with_grant(
    words: str, error: UnderstudyError, cluster: ClusterSpec, operation: str, topic: str
) -> str:
    """Return the sentence, with the command to grant the right if that is missing."""
    if error.code != "not_authorised":
        return words
    return f"{words} Grant it: {grant_command(cluster, operation, topic=topic)}"

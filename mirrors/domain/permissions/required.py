"""The least permissions of one flow, from its settings.

Invariants:
A. A permission is listed only for a feature that is on: `why` names it.
B. A pattern of topics becomes the narrowest ACL that covers it: a literal name, a prefix, or the
   topics that match now. Only a pattern without a prefix, with no topic known, becomes `*`.
C. `Describe` is never listed beside an operation that implies it (Read, Write, Delete, Alter).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator
from typing import Literal

from mirrors.domain.failback.divergence import divergence_topic
from mirrors.domain.offsets.runs import runs_topic
from mirrors.domain.patterns.matcher import literal_name
from mirrors.domain.replication_policy import HEARTBEATS, ReplicationPolicy, policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.domain.standby.records import backup_topic

Side = Literal["source", "target"]
Resource = Literal["topic", "group", "transactional-id", "cluster"]
Pattern = Literal["literal", "prefixed"]
_PREFIX = re.compile(r"((?:[A-Za-z0-9_.-]|\\\.)+)\.\*")
_OWN = ("Create", "Read", "Write")
_REMOTE = ("Create", "Read", "Write", "Alter", "DescribeConfigs")
CLUSTER = "kafka-cluster"
# Transactional ids of all flows begin so.
TRANSACTIONAL_IDS = "understudy."


@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class Permission:
    """Some operations of one principal on one resource or prefix. `why`: the feature."""

    side: Side
    resource: Resource
    name: str
    pattern: Pattern
    operations: tuple[str, ...]
    why: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Names:
    pattern: Pattern
    name: str


def required_permissions(
    spec: FlowSpec,
    *,
    topics: Collection[str] = (),
    groups: Collection[str] = (),
    failover: bool = False,
) -> list[Permission]:
    """Everything that the flow needs on both clusters.

    `topics` and `groups`: what the flow selects now, for patterns that no prefix covers.
    `failover`: also what a switchover or failover needs, except for a fence by ACLs.
    """
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    chosen = _names(spec.settings.topics, topics)
    members = _names(spec.settings.groups, groups)
    found = [
        *_copying(spec, policy, chosen),
        *_heartbeats(spec, policy),
        *_group_state(spec, policy, members),
        *_acls(spec),
        *_standby(spec),
    ]
    if failover:
        found += _failover(spec, members)
    return found


def _copying(
    spec: FlowSpec, policy: ReplicationPolicy, chosen: list[_Names]
) -> Iterator[Permission]:
    for one in chosen:
        yield _on("source", "topic", one, ("Read", "DescribeConfigs"), "copy topics")
    operations: tuple[str, ...] = _REMOTE
    why = "create and write remote topics, and find records of others in them"
    if spec.settings.sync_topic_configs_enabled:
        operations, why = (*_REMOTE, "AlterConfigs"), f"{why}; synchronize their configs"
    for remote in _remote_names(policy, chosen):
        yield _on("target", "topic", remote, operations, why)
    for route in (name for rule in spec.settings.transforms for name in rule.routes):
        yield _on("target", "topic", _literal(route), operations, why)
    for name, what in (
        (policy.positions_topic(), "keep positions"),
        (runs_topic(spec.source.alias), "keep the map of offsets"),
        (policy.offsets_topic(), "keep MirrorMaker 2's copy of the positions"),
    ):
        yield _on("target", "topic", _literal(name), _OWN, what)
    if (dead_letters := spec.dead_letter_topic) is not None:
        operations = (*_OWN, "DescribeConfigs")
        why = "write records for which a rule fails"
        yield _on("target", "topic", _literal(dead_letters), operations, why)
    ids = _Names(pattern="prefixed", name=TRANSACTIONAL_IDS)
    yield _on(
        "target", "transactional-id", ids, ("Write",), "commit records and positions together"
    )


def _remote_names(policy: ReplicationPolicy, chosen: list[_Names]) -> list[_Names]:
    """Return the names of remote topics; `*` where `topic.rename` names topics of a prefix."""
    if policy.renames and any(one.pattern != "literal" for one in chosen):
        return [_literal("*")]
    return [
        one if one.name == "*" else _Names(pattern=one.pattern, name=policy.remote_topic(one.name))
        for one in chosen
    ]


def _heartbeats(spec: FlowSpec, policy: ReplicationPolicy) -> Iterator[Permission]:
    settings = spec.settings
    if settings.emit_heartbeats_enabled:
        both = ("Create", "Read", "Write", "DescribeConfigs")
        yield _on("source", "topic", _literal(HEARTBEATS), both, "write and copy heartbeats")
    elif settings.heartbeats_replication_enabled:
        read = ("Read", "DescribeConfigs")
        yield _on("source", "topic", _literal(HEARTBEATS), read, "copy heartbeats")
    if settings.emit_heartbeats_enabled or settings.heartbeats_replication_enabled:
        remote = _literal(policy.remote_topic(HEARTBEATS))
        yield _on("target", "topic", remote, _REMOTE, "write and read heartbeats")


def _group_state(
    spec: FlowSpec, policy: ReplicationPolicy, members: list[_Names]
) -> Iterator[Permission]:
    settings = spec.settings
    if settings.emit_offset_syncs_enabled:
        on_source = settings.offset_syncs_topic_location == "source"
        other = policy.target_alias if on_source else policy.source_alias
        name = _literal(policy.offset_syncs_topic(other))
        yield _on(
            "source" if on_source else "target", "topic", name,
            ("Create", "Write"), "write offset syncs for MirrorMaker 2's clients",
        )  # fmt: skip
    if not settings.emit_checkpoints_enabled and not settings.sync_group_offsets_enabled:
        return
    for one in members:
        yield _on("source", "group", one, ("Describe",), "read offsets of consumer groups")
    if settings.emit_checkpoints_enabled:
        yield _on(
            "target", "topic", _literal(policy.checkpoints_topic()), _OWN, "write checkpoints"
        )
    if settings.sync_group_offsets_enabled:
        for one in members:
            yield _on("target", "group", one, ("Read",), "write offsets of consumer groups")


def _acls(spec: FlowSpec) -> Iterator[Permission]:
    if spec.settings.sync_topic_acls_enabled:
        cluster = _literal(CLUSTER)
        yield _on("source", "cluster", cluster, ("Describe",), "read ACLs")
        yield _on(
            "target", "cluster", cluster, ("Alter",), "write ACLs: it can grant any permission"
        )


def _standby(spec: FlowSpec) -> Iterator[Permission]:
    name = _literal(backup_topic(spec.source.alias))
    yield _on("target", "topic", name, ("Create", "Write"), "keep the flow's definition")


def _failover(spec: FlowSpec, members: list[_Names]) -> Iterator[Permission]:
    name = _literal(divergence_topic(spec.source.alias))
    yield _on("target", "topic", name, _OWN, "keep where both clusters diverge")
    backup = _literal(backup_topic(spec.source.alias))
    yield _on("target", "topic", backup, ("Read",), "rebuild a lost database from the definition")
    for one in members:
        why = "write offsets of groups at a failover, and delete them if it is aborted"
        yield _on("target", "group", one, ("Read", "Delete"), why)


def _on(
    side: Side, resource: Resource, names: _Names, operations: tuple[str, ...], why: str
) -> Permission:
    return Permission(
        side=side,
        resource=resource,
        name=names.name,
        pattern=names.pattern,
        operations=operations,
        why=why,
    )


def _literal(name: str) -> _Names:
    return _Names(pattern="literal", name=name)


def _names(elements: Collection[str], known: Collection[str]) -> list[_Names]:
    """The narrowest names and prefixes that cover the patterns; `*` if nothing narrower does."""
    literals, prefixes = set(known), set()
    for element in elements:
        if (name := literal_name(element)) is not None:
            literals.add(name)
        elif (prefix := _PREFIX.fullmatch(element)) is not None:
            prefixes.add(prefix[1].replace("\\.", "."))
        elif not known:
            return [_literal("*")]
    prefixes = {
        one
        for one in prefixes
        if not any(one != other and one.startswith(other) for other in prefixes)
    }
    literals = {name for name in literals if not name.startswith(tuple(prefixes))}
    return [
        *(_literal(name) for name in sorted(literals)),
        *(_Names(pattern="prefixed", name=prefix) for prefix in sorted(prefixes)),
    ]

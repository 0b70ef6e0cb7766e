"""What a flow would change on its target besides records: each with before, after and why."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from mirrors.domain.schemas.plan import Registration, SchemaPlan
from mirrors.domain.schemas.plan import Setting as SchemaSetting
from mirrors.domain.topics.acls import GROUP, PREFIXED, AclRule
from mirrors.domain.topics.plan import Growth, NewTopic

Kind = Literal[
    "create topic",
    "add partitions",
    "topic config",
    "topic acl",
    "group acl",
    "take topic acl",
    "take group acl",
    "register schema",
    "schema level",
    "schema mode",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """One line of a plan for people; `before` is None if nothing exists yet."""

    kind: Kind
    name: str
    before: str | None
    after: str | None
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfigChange:
    """One setting of a remote topic; `after` None resets it to the target's default.

    `stands`: the present value, None for the default; `before` is its description.
    """

    topic: str
    remote_topic: str
    key: str
    before: str | None
    after: str | None
    stands: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SyncPlan:
    """All differences on the target, and what was left out with its reason.

    `codes`: the codes of those sentences in `left_out` that programs use.
    """

    create: tuple[NewTopic, ...] = ()
    grow: tuple[Growth, ...] = ()
    configs: tuple[ConfigChange, ...] = ()
    acls: tuple[AclRule, ...] = ()
    take: tuple[AclRule, ...] = ()
    schemas: SchemaPlan = dataclasses.field(default_factory=SchemaPlan)
    left_out: tuple[str, ...] = ()
    codes: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def changes(self) -> tuple[Change, ...]:
        return (
            *map(_created, self.create),
            *map(_grown, self.grow),
            *map(_set, self.configs),
            *map(_granted, self.acls),
            *map(_taken, self.take),
            *schema_changes(self.schemas),
        )

    @property
    def digest(self) -> str:
        """Identifies these changes: equal plans have equal digests, whenever they are made."""
        acts = {
            name: [dataclasses.asdict(row) for row in getattr(self, name)]
            for name in ("create", "grow", "configs", "acls", "take")
        }
        if self.schemas.changes:
            new, settings = self.schemas.register, self.schemas.settings
            acts["schemas"] = [*map(dataclasses.asdict, new), *map(dataclasses.asdict, settings)]
        text = json.dumps(acts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _created(new: NewTopic) -> Change:
    copies = (
        "the target's default replication factor"
        if new.replication_factor < 0
        else f"replication factor {new.replication_factor}"
    )
    settings = "".join(f", {key}={value}" for key, value in new.configs.items())
    return Change(
        kind="create topic",
        name=new.remote_topic,
        before=None,
        after=f"{new.partitions} partitions, {copies}{settings}",
        reason=f"{new.topic} is replicated and has no remote topic yet.",
    )


def _grown(growth: Growth) -> Change:
    return Change(
        kind="add partitions",
        name=growth.remote_topic,
        before=str(growth.partitions_now),
        after=str(growth.partitions),
        reason=f"{growth.topic} has {growth.partitions} partitions on the source.",
    )


def _set(change: ConfigChange) -> Change:
    reason = (
        f"{change.topic} does not set it on the source, so the target's default applies."
        if change.after is None
        else f"{change.topic} has this value on the source."
    )
    return Change(
        kind="topic config",
        name=f"{change.remote_topic}: {change.key}",
        before=change.before,
        after=change.after,
        reason=reason,
    )


def _granted(rule: AclRule) -> Change:
    return Change(
        kind="group acl" if rule.resource == GROUP else "topic acl",
        name=f"{_covers(rule)}: {rule.principal}",
        before=None,
        after=_effect(rule),
        reason="The source has this ACL for the group."
        if rule.resource == GROUP
        else "The source has this ACL for the topic; ALL becomes READ, WRITE is not synchronized.",
    )


def _taken(rule: AclRule) -> Change:
    return Change(
        kind="take group acl" if rule.resource == GROUP else "take topic acl",
        name=f"{_covers(rule)}: {rule.principal}",
        before=_effect(rule),
        after=None,
        reason="This flow created it, and the source no longer has an ACL that leads to it.",
    )


def schema_changes(plan: SchemaPlan) -> tuple[Change, ...]:
    """Return the changes in the target's registry, in the order in which they are made."""
    return (*map(_registered, plan.register), *map(_schema_setting, plan.settings))


def _registered(new: Registration) -> Change:
    kept = f" with id {new.id}" if new.keeps else ", with an id of the target's registry"
    reason = f"The source has it as version {new.version} of {new.subject}, id {new.id}."
    return Change(
        kind="register schema",
        name=f"{new.target_subject}: version {new.version}",
        before=None,
        after=f"{new.kind}{kept}",
        reason=f"{reason} {new.because[:1].upper()}{new.because[1:]}.".removesuffix(" ."),
    )


def _schema_setting(row: SchemaSetting) -> Change:
    words = "compatibility level" if row.what == "level" else "mode"
    return Change(
        kind="schema level" if row.what == "level" else "schema mode",
        name=row.target_subject,
        before=row.before or "that of the registry",
        after=row.after,
        reason=f"The subject has this {words} on the source.",
    )


def _covers(rule: AclRule) -> str:
    return f"{rule.name}* (prefix)" if rule.pattern == PREFIXED else rule.name


def _effect(rule: AclRule) -> str:
    return f"{rule.permission} {rule.operation} from host {rule.host}"

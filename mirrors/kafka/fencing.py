"""Keep everybody from writing to topics by access rules of our own, and take just those away."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from kafka.protocol.admin import DescribeAclsRequest

from mirrors.kafka.connection import DEADLINE_S, AdminConnection, Partial
from mirrors.kafka.dialogues import Dialogues
from mirrors.kafka.errors import translate_number

CLIENT_ID = "understudy-fence"
EVERYBODY = "User:*"
SECURITY_DISABLED = 54
_ANY, _LITERAL, _PREFIXED = 1, 3, 4
_OPEN = "allow.everyone.if.no.acl.found"


@dataclasses.dataclass(frozen=True, order=True)
class Denial:
    """One rule of ours for everybody: what it says of one topic."""

    topic: str
    operation: str = "WRITE"
    permission: str = "DENY"


@dataclasses.dataclass(frozen=True)
class Standing:
    """What rules there are: those of ours among them, and which names they cover."""

    ours: frozenset[Denial]
    literal: frozenset[str]
    prefixes: tuple[str, ...]

    def covers(self, topic: str) -> bool:
        if topic in self.literal or "*" in self.literal:
            return True
        return topic.startswith(self.prefixes) if self.prefixes else False


class Fence(AdminConnection):
    """One cluster's topics, seen by who may write to them."""

    def standing(
        self, *, without: Iterable[Denial] = (), deadline_s: float = DEADLINE_S
    ) -> Standing | None:
        """None where the cluster has no authorizer. Rules in `without` cover nothing."""
        question = DescribeAclsRequest(
            resource_type_filter=ResourceType.TOPIC.value,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
        with Dialogues(self.spec, deadline_s=deadline_s, client_id=CLIENT_ID) as dialogues:
            answer = dialogues.ask_any(question, at_most=3)
        if answer.error_code == SECURITY_DISABLED:
            return None
        if answer.error_code:
            raise translate_number(
                answer.error_code, where=self.spec.alias, doing="read access rules of topics"
            )
        return _standing(answer.resources, set(without))

    def make(
        self, rules: Iterable[Denial], *, deadline_s: float = DEADLINE_S
    ) -> Partial[Denial, None]:
        """A rule that exists already is made again without effect."""
        wanted = {AclBinding(*_fields(rule)): rule for rule in rules}
        if not wanted:
            return Partial()
        futures = self.client.create_acls(list(wanted), request_timeout=deadline_s)
        return self.gather(
            {wanted[binding]: future for binding, future in futures.items()},
            doing=lambda rule: f"make an access rule of topic {rule.topic}",
            deadline_s=deadline_s,
            fold=lambda _: None,
        )

    def take_away(
        self, rules: Iterable[Denial], *, deadline_s: float = DEADLINE_S
    ) -> Partial[Denial, None]:
        """Exactly these; one that is gone already is deleted again without effect."""
        wanted = {AclBindingFilter(*_fields(rule)): rule for rule in rules}
        if not wanted:
            return Partial()
        futures = self.client.delete_acls(list(wanted), request_timeout=deadline_s)
        return self.gather(
            {wanted[which]: future for which, future in futures.items()},
            doing=lambda rule: f"take away an access rule of topic {rule.topic}",
            deadline_s=deadline_s,
            fold=lambda _: None,
        )

    def lets_in_everybody(self, *, deadline_s: float = DEADLINE_S) -> bool:
        """Whether a topic without any rule is open: the first rule would shut out all readers."""
        until = time.monotonic() + deadline_s
        nodes = self.client.describe_cluster(request_timeout=deadline_s).result(deadline_s).nodes
        broker = ConfigResource(ResourceType.BROKER, str(nodes[0].id))
        left = max(1.0, until - time.monotonic())
        futures = self.client.describe_configs([broker], request_timeout=left)
        found = self.gather(
            {"broker": futures[broker]},
            doing=lambda _: "read the settings of a broker",
            deadline_s=left,
            fold=lambda entries: entries[_OPEN].value if _OPEN in entries else "false",
        ).raise_first()
        return str(found.done["broker"]).lower() == "true"


def _standing(resources: Iterable[Any], without: set[Denial]) -> Standing:
    ours: set[Denial] = set()
    literal: set[str] = set()
    prefixes: set[str] = set()
    for resource in resources:
        for entry in resource.acls:
            rule = _ours(resource, entry)
            if rule is not None:
                ours.add(rule)
            if rule is not None and rule in without:
                continue
            names = prefixes if resource.pattern_type == _PREFIXED else literal
            names.add(resource.resource_name)
    return Standing(frozenset(ours), frozenset(literal), tuple(sorted(prefixes)))


def _ours(resource: Any, entry: Any) -> Denial | None:
    if (entry.principal, entry.host, resource.pattern_type) != (EVERYBODY, "*", _LITERAL):
        return None
    try:
        operation, permission = (
            AclOperation(entry.operation),
            AclPermissionType(entry.permission_type),
        )
    except ValueError:  # words that are newer than this program
        return None
    return Denial(resource.resource_name, operation.name, permission.name)


def _fields(rule: Denial) -> tuple[Any, ...]:
    return (
        ResourceType.TOPIC,
        rule.topic,
        ResourcePatternType.LITERAL,
        EVERYBODY,
        "*",
        AclOperation[rule.operation],
        AclPermissionType[rule.permission],
    )

"""Deny writes to topics by ACLs, and find out whether the cluster enforces them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, cast

from confluent_kafka.admin import ConfigResource, ResourceType

from mirrors.domain.topics.acls import ALL_NAMES, LITERAL, PREFIXED, AclRule
from mirrors.kafka.admin.acls import Acls
from mirrors.kafka.connection.admin_client import DEADLINE_S

CLIENT_ID = "understudy-fence"
ALL_PRINCIPALS = "User:*"
_ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
# Brokers that are asked at the same time: some of them may be down.
_BROKERS_AT_ONCE = 5


class ClientFence(Acls):
    """The ACLs that deny or allow writes to the topics of one cluster."""

    def allows_everyone(self, *, deadline_s: float = DEADLINE_S) -> bool | None:
        """Return whether topics without any ACL are open: the first ACL would then deny all
        readers.

        None: the setting exists, but the broker does not return its value. Brokers hide the values
        of settings that only their authorizer knows.
        """
        until = time.monotonic() + deadline_s
        nodes = self.describe_cluster(deadline_s=deadline_s).nodes
        values = {
            node.id: self._settings_of(node.id, until - time.monotonic())
            for node in nodes[:_BROKERS_AT_ONCE]
        }
        # They all have the same authorizer: whichever answers first will do.
        first = _first_result(values.values(), until)
        if first is None:
            self.gather(
                values,
                doing=lambda node: f"read the settings of broker {node}",
                deadline_s=max(0.0, until - time.monotonic()),
                fold=lambda entries: entries,
            ).raise_first()
        entries = first or {}
        value = entries[_ALLOW_EVERYONE].value if _ALLOW_EVERYONE in entries else "false"
        return None if value is None else value.lower() == "true"

    def _settings_of(self, node: int, deadline_s: float) -> Future[Any]:
        broker = ConfigResource(ResourceType.BROKER, str(node))
        return self.client.describe_configs([broker], request_timeout=max(1.0, deadline_s))[broker]


def _first_result(futures: Iterable[Future[Any]], until: float) -> Mapping[str, Any] | None:
    """Return the first successful result; None if there is none in time."""
    waiting = set(futures)
    while waiting and (left := until - time.monotonic()) > 0:
        done, waiting = wait(waiting, left, FIRST_COMPLETED)
        for future in done:
            if future.exception() is None:
                return cast("Mapping[str, Any]", future.result())
    return None


def deny_writes(topics: Iterable[str]) -> list[AclRule]:
    """Return one DENY rule per topic. It takes precedence over every ALLOW rule."""
    return [_rule(topic, "WRITE", "DENY") for topic in sorted(set(topics))]


def preserve_open_access(topics: Iterable[str], rules: Iterable[AclRule]) -> list[AclRule]:
    """Return ALLOW rules for topics without any rule, on a cluster that allows everyone: the DENY
    rule would otherwise also deny their readers."""
    rules = list(rules)
    return [
        _rule(name, "ALL", "ALLOW") for name in sorted(set(topics)) if not _covered(name, rules)
    ]


def _covered(topic: str, rules: Iterable[AclRule]) -> bool:
    return any(
        rule.name in (topic, ALL_NAMES)
        if rule.pattern == LITERAL
        else rule.pattern == PREFIXED and topic.startswith(rule.name)
        for rule in rules
        if rule.resource == "TOPIC"
    )


def _rule(topic: str, operation: str, permission: str) -> AclRule:
    return AclRule(
        name=topic, principal=ALL_PRINCIPALS, host="*", operation=operation, permission=permission
    )

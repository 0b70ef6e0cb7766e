"""What the principal that connects may do on named topics and groups, without trying anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from confluent_kafka.admin._acl import AclOperation
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.failover.beside import Rights
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.codes import Code
from mirrors.kafka.connection import DEADLINE_S
from mirrors.kafka.dialogues import Address, Dialogues

CLIENT_ID = "understudy-rights"
NOTHING: frozenset[str] = frozenset()
# The newest version of each that answers of the cluster, and of groups that do not exist yet.
_METADATA, _GROUPS = 10, 5


def ask_rights(
    spec: ClusterSpec,
    *,
    topics: Iterable[str],
    groups: Iterable[str],
    deadline_s: float = DEADLINE_S,
) -> Rights:
    """Raises when the cluster does not answer; a group that cannot be asked is in `trouble`."""
    with Dialogues(spec, deadline_s=deadline_s, client_id=CLIENT_ID) as dialogues:
        kind = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(
            topics=[kind(name=name) for name in sorted(set(topics))],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        seen = dialogues.ask_any(request, at_most=_METADATA)
        found = Rights(
            alias=spec.alias,
            cluster=_words(seen.authorized_operations),
            topics=_told(
                (
                    topic.name,
                    topic.error_code == Code.TOPIC_AUTHORIZATION_FAILED,
                    topic.authorized_operations,
                )
                for topic in seen.topics
            ),
            absent=frozenset(
                topic.name
                for topic in seen.topics
                if topic.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
            ),
        )
        return _with_groups(dialogues, found, sorted(set(groups)))


def _with_groups(dialogues: Dialogues, found: Rights, names: list[str]) -> Rights:
    """Each coordinator is asked for all of its groups at once."""
    coordinators = dialogues.coordinators(names)
    groups: dict[str, frozenset[str]] = {}
    troubles = []
    for name, error in coordinators.failed.items():
        if error.code == "not_authorised":
            groups[name] = NOTHING
        else:
            troubles.append(error.message)
    for address, here in coordinators.at.items():
        groups |= _told(
            (
                group.group_id,
                group.error_code == Code.GROUP_AUTHORIZATION_FAILED,
                group.authorized_operations,
            )
            for group in _describe(dialogues, address, here)
        )
    return dataclasses.replace(found, groups=groups, trouble=troubles[0] if troubles else "")


def _describe(dialogues: Dialogues, address: Address, names: list[str]) -> Iterable[Any]:
    request = DescribeGroupsRequest(groups=names, include_authorized_operations=True)
    answer = dialogues.ask_coordinator(
        address,
        request,
        lambda reply: [group.error_code for group in reply.groups],
        at_most=_GROUPS,
    )
    groups: list[Any] = answer.groups
    return groups


def _told(rows: Iterable[tuple[str, bool, Iterable[int] | None]]) -> dict[str, frozenset[str]]:
    """Each name that the broker refuses, or tells of."""
    found = {}
    for name, refused, operations in rows:
        words = NOTHING if refused else _words(operations)
        if words is not None:
            found[name] = words
    return found


def _words(operations: Iterable[int] | None) -> frozenset[str] | None:
    """Kafka's words for the bits; one that is newer than this program is left out."""
    if operations is None:
        return None
    known = {operation.value for operation in AclOperation}
    return frozenset(AclOperation(one).name for one in operations if one in known)

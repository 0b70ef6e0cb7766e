"""Permissions for a failover on both clusters, and whether ACLs can fence the source."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failback.divergence import divergence_topic
from mirrors.domain.failover.partitions import partition_accounts, without_excluded
from mirrors.domain.failover.plan_types import FailoverSnapshot
from mirrors.domain.failover.preconditions import CheckedNames, FenceSupport, Permissions
from mirrors.domain.settings import failover as keys
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.kafka.admin.client_fence import CLIENT_ID, ClientFence, preserve_open_access
from mirrors.kafka.admin.permissions import describe_permissions
from mirrors.kafka.admin.temporary_groups import PREFIX
from mirrors.models import Flow

DEADLINE_S = 10.0
SOURCE_DEADLINE_S = 8.0
# A group of the prefix that no simulation creates: permissions are requested by name.
_ANY_TEMPORARY_GROUP = f"{PREFIX}rights"


def with_permissions(
    picture: FailoverSnapshot,
    *,
    flow: Flow,
    spec: FlowSpec,
    away: bool,
    tick: Callable[[], None],
) -> FailoverSnapshot:
    """`away`: the source does not respond, so it is not asked again.

    Excluded topics and groups need no permissions.
    """
    mine = without_excluded(picture, partition_accounts(picture))
    checked = CheckedNames(
        topics=_names(row.topic for row in mine.partitions),
        remote_topics=_names(
            [
                *(row.remote_topic for row in mine.partitions),
                *(
                    group_partition.remote_topic or ""
                    for group in mine.groups
                    for group_partition in group.group_partitions
                ),
            ]
        ),
        groups=_names(group.group for group in mine.groups if group.group_partitions),
        temporary_groups=PREFIX,
        divergence_topic=divergence_topic(spec.source.alias),
    )
    target = _ask(
        spec.target,
        topics=(*checked.remote_topics, checked.divergence_topic),
        groups=(*checked.groups, _ANY_TEMPORARY_GROUP),
        deadline_s=DEADLINE_S,
    )
    if _ANY_TEMPORARY_GROUP in target.groups:
        may = {**target.groups, PREFIX: target.groups[_ANY_TEMPORARY_GROUP]}
        target = dataclasses.replace(target, groups=may)
    tick()
    if away or not checked.topics:
        return dataclasses.replace(picture, checked=checked, target_rights=target)
    source = _ask(spec.source, topics=checked.topics, groups=(), deadline_s=SOURCE_DEADLINE_S)
    tick()
    fence = _fence(flow, spec.source, checked.topics, source)
    return dataclasses.replace(
        picture, checked=checked, target_rights=target, source_rights=source, fence=fence
    )


def _ask(
    spec: ClusterSpec, *, topics: Iterable[str], groups: Iterable[str], deadline_s: float
) -> Permissions:
    try:
        return describe_permissions(spec, topics=topics, groups=groups, deadline_s=deadline_s)
    except UnderstudyError as error:
        return Permissions(alias=spec.alias, trouble=error.message)


def _fence(
    flow: Flow, source: ClusterSpec, topics: tuple[str, ...], rights: Permissions
) -> FenceSupport:
    """The result that the fence step would get, by the same requests."""
    hooks = keys.hooks_of(flow.properties)
    seen = FenceSupport(how=str(hooks[keys.FENCE] or "acl"), fallback=keys.fallback(hooks))
    try:
        with ClientFence(source, client_id=CLIENT_ID) as fence:
            there = fence.rules(deadline_s=SOURCE_DEADLINE_S)
            if there is None:
                words = "it has no authorizer, so it stores no ACLs."
                return dataclasses.replace(seen, refused=words)
            bare = tuple(rule.name for rule in preserve_open_access(topics, there))
            everybody = fence.allows_everyone(deadline_s=SOURCE_DEADLINE_S) if bare else False
    except UnderstudyError as error:
        return dataclasses.replace(seen, refused=error.message)
    if everybody is not False:
        seen = dataclasses.replace(seen, bare=bare, everybody=everybody)
    if rights.cluster is not None and "ALTER" not in rights.cluster:
        words = (
            "the principal that connects may not create them. Grant Alter on the cluster, with "
            "which it can grant any permission there."
        )
        return dataclasses.replace(seen, refused=words)
    return seen


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}))

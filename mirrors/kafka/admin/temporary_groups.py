"""Temporary consumer groups of one simulation: created with offsets, found by prefix, deleted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.groups import GroupOffset, list_reachable_groups, write_offsets
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.connection.admin_client import DEADLINE_S, Partial

PREFIX = "understudy-simulation-"
CLIENT_ID = "understudy-simulation"


def create_group(
    spec: ClusterSpec,
    name: str,
    offsets: Mapping[TopicPartition, int],
    *,
    deadline_s: float = DEADLINE_S,
) -> Partial[TopicPartition, None]:
    """Create a group without members at these offsets. The name must have the prefix of such
    groups."""
    _check(name)
    wanted = {tp: GroupOffset(offset) for tp, offset in offsets.items()}
    return write_offsets(spec, name, wanted, deadline_s=deadline_s)


def find_groups(spec: ClusterSpec, prefix: str, *, deadline_s: float = DEADLINE_S) -> list[str]:
    """Find the groups that a simulation left behind, by the prefix of their names."""
    _check(prefix)
    listed = list_reachable_groups(spec, deadline_s=deadline_s).groups
    return sorted(name for name in listed if name.startswith(prefix))


def delete_groups(
    spec: ClusterSpec, names: Iterable[str], *, deadline_s: float = DEADLINE_S
) -> Partial[str, None]:
    """Delete groups. A missing one counts as deleted."""
    selected = sorted(set(names))
    for name in selected:
        _check(name)
    if not selected:
        return Partial()
    until = time.monotonic() + deadline_s
    with Admin(spec, client_id=CLIENT_ID) as admin:
        left = max(0.5, until - time.monotonic())
        result: Partial[str, None] = admin.gather(
            admin.client.delete_consumer_groups(selected, request_timeout=left),
            doing=lambda name: f"delete the temporary group {name}",
            deadline_s=left,
            fold=lambda _: None,
        )
    missing = [name for name, error in result.failed.items() if error.code == "not_found"]
    for name in missing:
        del result.failed[name]
        result.done[name] = None
    return result


def _check(name: str) -> None:
    if not name.startswith(PREFIX) or name == PREFIX:
        raise UnderstudyError(f"{name} is not a group of a simulation; it is not deleted.")

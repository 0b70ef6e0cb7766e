"""The permissions of the connecting principal, read without any change on the cluster."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from confluent_kafka.admin._acl import AclOperation
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import EndTxnRequest

from mirrors.domain.failover.preconditions import Permissions
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.admin_client import DEADLINE_S
from mirrors.kafka.connection.cluster_requests import ClusterRequests
from mirrors.kafka.error_codes import Code
from mirrors.kafka.error_table import COORDINATOR_MOVING
from mirrors.kafka.protocol.connection import BrokerConnection

READ, WRITE, CREATE, ALTER, DESCRIBE = 3, 4, 5, 7, 8
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12
TRANSACTION_COORDINATOR = 1
# A new coordinator creates or loads its partition of the transaction log for so long.
_RETRY_S = (0.1, 0.2, 0.4, 0.8, 1.6)

Side = Literal["source", "target", "both"]


@dataclasses.dataclass(frozen=True)
class Permission:
    """One permission. `allowed` is None if the cluster does not report it; `side` needs it."""

    name: str
    allowed: bool | None
    side: Side
    words: str


def cluster_permissions(operations: Iterable[int]) -> list[Permission]:
    """From the authorized operations of DescribeCluster; all unknown without DESCRIBE itself."""
    granted = set(operations)
    known = DESCRIBE in granted

    def permission(name: str, operation: int, side: Side, have: str, lack: str) -> Permission:
        if operation in granted:
            return Permission(name, True, side, have)
        words = lack if known else f"Unknown without Describe on the cluster. {lack}"
        return Permission(name, False if known else None, side, words)

    return [
        Permission(
            "describe cluster",
            known,
            "both",
            "Describe on the cluster is granted: all groups can be listed."
            if known
            else "Describe on the cluster is missing: groups are listed only where granted.",
        ),
        permission(
            "create topics",
            CREATE,
            "target",
            "Create on the cluster is granted.",
            "No Create on the cluster: remote topics need it by topic name or prefix.",
        ),
        permission(
            "idempotent write",
            IDEMPOTENT_WRITE,
            "target",
            "IdempotentWrite on the cluster is granted.",
            "No IdempotentWrite on the cluster; Write on a topic is enough since Kafka 2.8.",
        ),
    ]


TOPIC_PERMISSIONS: tuple[tuple[str, int, Side], ...] = (
    ("read topics", READ, "source"),
    ("describe topic settings", DESCRIBE_CONFIGS, "both"),
    ("write topics", WRITE, "target"),
    ("grow topics", ALTER, "target"),
    ("alter topic settings", ALTER_CONFIGS, "target"),
)


def topic_permissions(topics: Sequence[Any]) -> list[Permission]:
    """From the authorized operations of each topic in a metadata response."""
    seen = [topic for topic in topics if not topic.is_internal and not topic.error_code]
    listed = Permission(
        "list topics",
        bool(seen) or None,
        "both",
        f"{len(seen)} topics are visible."
        if seen
        else "No topic is visible: there is none, or Describe is granted on none.",
    )
    return [
        listed,
        *(_topic_permission(name, number, side, seen) for name, number, side in TOPIC_PERMISSIONS),
    ]


def _topic_permission(name: str, operation: int, side: Side, seen: list[Any]) -> Permission:
    if not seen:
        return Permission(name, None, side, "Unknown: no topic is visible.")
    lacking = [topic.name for topic in seen if operation not in topic.authorized_operations]
    if not lacking:
        return Permission(name, True, side, f"Granted on all {len(seen)} visible topics.")
    examples = ", ".join(sorted(lacking)[:3]) + (", …" if len(lacking) > 3 else "")
    words = f"Missing on {len(lacking)} of {len(seen)} topics: {examples}."
    return Permission(name, len(lacking) < len(seen), side, words)


def topic_metadata(connection: BrokerConnection, deadline: float) -> Any:
    return connection.call(
        MetadataRequest(
            topics=None,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
        deadline,
        newest=12,
    )


def find_transaction_coordinator(
    connection: BrokerConnection, transactional_id: str, deadline: float
) -> Any:
    """Return the coordinator. A cluster that never ran a transaction creates its transaction log
    now."""
    for pause in _RETRY_S:
        found = _find_coordinator(connection, transactional_id, deadline)
        if found.error_code not in COORDINATOR_MOVING:
            break
        time.sleep(pause)
    return found


def _find_coordinator(connection: BrokerConnection, transactional_id: str, deadline: float) -> Any:
    answer = connection.call(
        FindCoordinatorRequest(
            key=transactional_id,
            key_type=TRANSACTION_COORDINATOR,
            coordinator_keys=[transactional_id],
        ),
        deadline,
        newest=4,
    )
    return answer.coordinators[0] if getattr(answer, "coordinators", None) else answer


def transactional_permission(
    connection: BrokerConnection, transactional_id: str, deadline: float
) -> Permission:
    """Check WRITE on a transactional id by EndTxn for a transaction that does not exist.

    The coordinator checks the permission first: it responds with 53 without WRITE, with 49
    otherwise. Nothing is written.
    """
    request = EndTxnRequest(
        transactional_id=transactional_id, producer_id=0, producer_epoch=0, committed=False
    )
    for pause in _RETRY_S:
        answer = connection.call(request, deadline, newest=3)
        if answer.error_code not in COORDINATOR_MOVING:
            break
        time.sleep(pause)
    name = "transactional write"
    if answer.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return _no_transactions(transactional_id)
    if answer.error_code == Code.INVALID_PRODUCER_ID_MAPPING:
        return Permission(
            name, True, "target", f"Write on transactional id {transactional_id}: yes."
        )
    return Permission(
        name, None, "target", f"Unknown: the coordinator responded with error {answer.error_code}."
    )


def _no_transactions(transactional_id: str) -> Permission:
    prefix = transactional_id.partition(".")[0] + "."
    return Permission(
        "transactional write",
        False,
        "target",
        f"No Write on transactional id {transactional_id}: grant Write and Describe on the "
        f"prefix {prefix}, or choose delivery at_least_once.",
    )


def coordinator_refusal(coordinator: Any, transactional_id: str) -> Permission | None:
    """The permission as far as FindCoordinator shows it; None if EndTxn has to show it."""
    if coordinator.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return _no_transactions(transactional_id)
    if coordinator.error_code:
        return Permission(
            "transactional write",
            None,
            "target",
            f"Unknown: no transaction coordinator yet (error {coordinator.error_code}).",
        )
    return None


CLIENT_ID = "understudy-rights"
NO_OPERATIONS: frozenset[str] = frozenset()
# The newest version of each that answers of the cluster, and of groups that do not exist yet.
_METADATA, _GROUPS = 10, 5


def describe_permissions(
    spec: ClusterSpec,
    *,
    topics: Iterable[str],
    groups: Iterable[str],
    deadline_s: float = DEADLINE_S,
) -> Permissions:
    """Read the principal's permissions. Raises if the cluster does not respond. `trouble` has the
    error of a group that cannot be described."""
    with ClusterRequests(spec, deadline_s=deadline_s, client_id=CLIENT_ID) as cluster:
        kind = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(
            topics=[kind(name=name) for name in sorted(set(topics))],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        seen = cluster.send_to_any(request, newest=_METADATA)
        found = Permissions(
            alias=spec.alias,
            cluster=_acl_operation_names(seen.authorized_operations),
            topics=_operations_by_name(
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
        return _with_groups(cluster, found, sorted(set(groups)))


def _with_groups(cluster: ClusterRequests, found: Permissions, names: list[str]) -> Permissions:
    """Describe the groups, with one request to each coordinator."""
    coordinators = cluster.coordinators(names)
    groups: dict[str, frozenset[str]] = {}
    troubles = []
    for name, error in coordinators.failed.items():
        if error.code == "not_authorised":
            groups[name] = NO_OPERATIONS
        else:
            troubles.append(error.message)
    for node, here in coordinators.groups.items():
        groups |= _operations_by_name(
            (
                group.group_id,
                group.error_code == Code.GROUP_AUTHORIZATION_FAILED,
                group.authorized_operations,
            )
            for group in _describe(cluster, node, here)
        )
    return dataclasses.replace(found, groups=groups, trouble=troubles[0] if troubles else "")


def _describe(cluster: ClusterRequests, node: int, names: list[str]) -> Iterable[Any]:
    request = DescribeGroupsRequest(groups=names, include_authorized_operations=True)
    answer = cluster.send_to_coordinator(
        node,
        request,
        lambda reply: [group.error_code for group in reply.groups],
        newest=_GROUPS,
    )
    groups: list[Any] = answer.groups
    return groups


def _operations_by_name(
    rows: Iterable[tuple[str, bool, Iterable[int] | None]],
) -> dict[str, frozenset[str]]:
    """The operations of each name; none for a name that the broker rejects."""
    found = {}
    for name, refused, operations in rows:
        words = NO_OPERATIONS if refused else _acl_operation_names(operations)
        if words is not None:
            found[name] = words
    return found


def _acl_operation_names(operations: Iterable[int] | None) -> frozenset[str] | None:
    """Kafka's names of the operations. Operations that this program does not know are left out."""
    if operations is None:
        return None
    known = {operation.value for operation in AclOperation}
    return frozenset(AclOperation(one).name for one in operations if one in known)

"""Consumer groups: list them, read their offsets, reset offsets of idle ones, with exact metadata.

confluent-kafka damages the metadata of committed offsets, so this module uses kafka-python's
messages.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.admin_client import DEADLINE_S, Partial
from mirrors.kafka.connection.cluster_requests import PAUSE_S, ClusterRequests
from mirrors.kafka.error_table import COORDINATOR_MOVING, error_of_number

CLIENT_ID = "understudy-groups"
NO_OFFSET = -1
# Groups of one coordinator that are asked about in one request.
_GROUPS_PER_REQUEST = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupListing:
    """One group. `type` is classic, consumer or share; `state` is Kafka's name (Empty, Stable)."""

    name: str
    type: str
    state: str
    protocol_type: str


@dataclasses.dataclass(frozen=True)
class GroupOffset:
    """The committed offset of a group in a partition: the next offset that it reads."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclasses.dataclass(frozen=True)
class GroupListings:
    """Groups by name. `errors`: why brokers did not respond; the groups they coordinate are
    missing."""

    groups: dict[str, GroupListing]
    errors: tuple[UnderstudyError, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.errors

    @property
    def reason(self) -> str:
        """Which groups are missing and why; empty if none is."""
        if self.is_complete:
            return ""
        return f"Groups that other brokers coordinate are not listed: {self.errors[0].message}"


def list_groups(spec: ClusterSpec, *, deadline_s: float = DEADLINE_S) -> dict[str, GroupListing]:
    """List all groups that the principal may describe. Raises if any broker does not respond."""
    listed = list_reachable_groups(spec, deadline_s=deadline_s)
    for error in listed.errors:
        raise error
    return listed.groups


def list_reachable_groups(spec: ClusterSpec, *, deadline_s: float = DEADLINE_S) -> GroupListings:
    """List the groups that the reachable brokers coordinate. Raises if no broker responds."""
    found: dict[str, GroupListing] = {}
    with ClusterRequests(spec, deadline_s=deadline_s, client_id=CLIENT_ID) as cluster:
        answers = _list_on_each(cluster)
    for answer in answers.done.values():
        if answer.error_code:
            raise error_of_number(answer.error_code, where=spec.alias, doing="list groups")
        for group in answer.groups:
            found[group.group_id] = GroupListing(
                name=group.group_id,
                type=str(getattr(group, "group_type", None) or "classic").lower(),
                state=str(getattr(group, "group_state", None) or ""),
                protocol_type=group.protocol_type or "",
            )
    return GroupListings(found, tuple(answers.failed.values()))


def _list_on_each(cluster: ClusterRequests) -> Partial[int, Any]:
    """The answer of each broker; asks again while one loads its part of the offsets topic."""
    while True:
        answers = cluster.send_to_each(ListGroupsRequest())
        is_loading = any(row.error_code in COORDINATOR_MOVING for row in answers.done.values())
        if not is_loading or time.monotonic() + PAUSE_S > cluster.deadline:
            return answers
        time.sleep(PAUSE_S)


def read_offsets(
    spec: ClusterSpec,
    groups: Mapping[str, Iterable[TopicPartition] | None],
    *,
    deadline_s: float = DEADLINE_S,
) -> Partial[str, Partial[TopicPartition, GroupOffset]]:
    """Return the stable committed offsets of each group. A partition without an offset is absent.

    - With a list of partitions: one whose offset is part of an open transaction is in `failed`
      with the code "busy".
    - With None: Kafka returns all partitions that it knows, without those of open transactions.
      So an absent partition does not mean offset 0.
    """
    result: Partial[str, Partial[TopicPartition, GroupOffset]] = Partial()
    with ClusterRequests(spec, deadline_s=deadline_s, client_id=CLIENT_ID) as cluster:
        coordinators = cluster.coordinators(groups)
        result.failed |= coordinators.failed
        for node, names in coordinators.groups.items():
            for start in range(0, len(names), _GROUPS_PER_REQUEST):
                part = names[start : start + _GROUPS_PER_REQUEST]
                _read(cluster, node, {name: groups[name] for name in part}, result)
    return result


def _read(
    cluster: ClusterRequests,
    node: int,
    groups: Mapping[str, Iterable[TopicPartition] | None],
    result: Partial[str, Partial[TopicPartition, GroupOffset]],
) -> None:
    """Read some groups of one coordinator, in one request where the broker supports it
    (KIP-709)."""
    try:
        answers = dict(_fetch_offsets(cluster, node, groups))
    except UnderstudyError as error:
        result.failed |= dict.fromkeys(groups, error)
        return
    for name in groups:
        where, doing = cluster.alias, f"read the offsets of group {name}"
        answer = answers[name]
        if answer.error_code:
            result.failed[name] = error_of_number(answer.error_code, where=where, doing=doing)
        else:
            result.done[name] = _offsets(answer, where, doing)


def _fetch_offsets(
    cluster: ClusterRequests, node: int, groups: Mapping[str, Iterable[TopicPartition] | None]
) -> Iterator[tuple[str, Any]]:
    kinds = OffsetFetchRequest.OffsetFetchRequestGroup
    asked = [
        kinds(group_id=name, topics=_by_topic(kinds.OffsetFetchRequestTopics, partitions))
        for name, partitions in groups.items()
    ]
    request = OffsetFetchRequest(groups=asked, require_stable=True)
    if cluster.newest_version(node, request) >= 8:
        answer = cluster.send_to_coordinator(node, request, _group_errors, newest=8)
        yield from ((one.group_id, one) for one in answer.groups)
        return
    for name, partitions in groups.items():
        topics = _by_topic(OffsetFetchRequest.OffsetFetchRequestTopic, partitions)
        old = OffsetFetchRequest(group_id=name, topics=topics, require_stable=True)
        yield (
            name,
            cluster.send_to_coordinator(node, old, lambda reply: [reply.error_code], newest=7),
        )


def _group_errors(answer: Any) -> list[int]:
    return [group.error_code for group in answer.groups]


def _offsets(answer: Any, where: str, doing: str) -> Partial[TopicPartition, GroupOffset]:
    result: Partial[TopicPartition, GroupOffset] = Partial()
    for topic in answer.topics:
        for part in topic.partitions:
            tp = (topic.name, part.partition_index)
            if part.error_code:
                words = f"{doing} in {topic.name}-{part.partition_index}"
                result.failed[tp] = error_of_number(part.error_code, where=where, doing=words)
            elif part.committed_offset != NO_OFFSET:
                result.done[tp] = _offset(part)
    return result


def _offset(part: Any) -> GroupOffset:
    epoch = getattr(part, "committed_leader_epoch", None)
    known = epoch is not None and epoch >= 0
    return GroupOffset(part.committed_offset, part.metadata or "", epoch if known else None)


def _by_topic(kind: Any, partitions: Iterable[TopicPartition] | None) -> list[Any] | None:
    if partitions is None:
        return None
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return [kind(name=name, partition_indexes=numbers) for name, numbers in topics.items()]


def write_offsets(
    spec: ClusterSpec,
    group: str,
    offsets: Mapping[TopicPartition, GroupOffset],
    *,
    deadline_s: float = DEADLINE_S,
) -> Partial[TopicPartition, None]:
    """Reset the offsets of an idle group. One with members is in `failed` with the code
    "group_active"."""
    result: Partial[TopicPartition, None] = Partial()
    if not offsets:
        return result
    with ClusterRequests(spec, deadline_s=deadline_s, client_id=CLIENT_ID) as cluster:
        coordinators = cluster.coordinators([group])
        for error in coordinators.failed.values():
            raise error
        (node,) = coordinators.groups
        request = _commit_request(group, offsets)
        answer = cluster.send_to_coordinator(node, request, _commit_errors, newest=8)
    for topic in answer.topics:
        for part in topic.partitions:
            tp = (topic.name, part.partition_index)
            if part.error_code:
                result.failed[tp] = error_of_number(
                    part.error_code,
                    where=spec.alias,
                    doing=f"set the offset of group {group} in {topic.name}-{part.partition_index}",
                )
            else:
                result.done[tp] = None
    return result


def _commit_errors(answer: Any) -> list[int]:
    return [part.error_code for topic in answer.topics for part in topic.partitions]


def _commit_request(group: str, offsets: Mapping[TopicPartition, GroupOffset]) -> Any:
    topic_kind = OffsetCommitRequest.OffsetCommitRequestTopic
    topics: dict[str, list[Any]] = {}
    for (topic, number), offset in offsets.items():
        part = topic_kind.OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=offset.offset,
            committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
            committed_metadata=offset.metadata,
        )
        topics.setdefault(topic, []).append(part)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[topic_kind(name=name, partitions=parts) for name, parts in topics.items()],
    )


def delete_offsets(
    spec: ClusterSpec,
    group: str,
    partitions: Iterable[TopicPartition],
    *,
    deadline_s: float = DEADLINE_S,
) -> Partial[TopicPartition, None]:
    """Delete the offsets of an idle group in these partitions; its other offsets stay."""
    result: Partial[TopicPartition, None] = Partial()
    kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
    topics: dict[str, list[Any]] = {}
    for topic, number in partitions:
        part = kind.OffsetDeleteRequestPartition(partition_index=number)
        topics.setdefault(topic, []).append(part)
    if not topics:
        return result
    rows = [kind(name=name, partitions=parts) for name, parts in topics.items()]
    doing = f"delete offsets of group {group}"
    with ClusterRequests(spec, deadline_s=deadline_s, client_id=CLIENT_ID) as cluster:
        coordinators = cluster.coordinators([group])
        for error in coordinators.failed.values():
            raise error
        (node,) = coordinators.groups
        request = OffsetDeleteRequest(group_id=group, topics=rows)
        answer = cluster.send_to_coordinator(
            node, request, lambda reply: [reply.error_code], newest=0
        )
    if answer.error_code:
        raise error_of_number(answer.error_code, where=spec.alias, doing=doing)
    for topic in answer.topics:
        for part in topic.partitions:
            tp = (topic.name, part.partition_index)
            if part.error_code:
                words = f"{doing} in {topic.name}-{part.partition_index}"
                result.failed[tp] = error_of_number(part.error_code, where=spec.alias, doing=words)
            else:
                result.done[tp] = None
    return result


def delete_group(spec: ClusterSpec, group: str, *, deadline_s: float = DEADLINE_S) -> None:
    """Delete a group and its offsets. Kafka rejects a group with members; a missing group is no
    error."""
    with ClusterRequests(spec, deadline_s=deadline_s, client_id=CLIENT_ID) as cluster:
        coordinators = cluster.coordinators([group])
        for error in coordinators.failed.values():
            raise error
        (node,) = coordinators.groups
        answer = cluster.send_to_coordinator(
            node,
            DeleteGroupsRequest(groups_names=[group]),
            lambda reply: [row.error_code for row in reply.results],
            newest=2,
        )
    for row in answer.results:
        if row.error_code:
            error = error_of_number(row.error_code, where=spec.alias, doing=f"delete group {group}")
            if error.code != "not_found":
                raise error

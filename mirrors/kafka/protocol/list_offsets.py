"""ListOffsets: log start and end offsets, for either isolation level."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from mirrors.kafka.protocol.broker_pool import BrokerPool
from mirrors.kafka.protocol.metadata import Leader

EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


@dataclasses.dataclass(frozen=True, slots=True)
class ListedOffset:
    """One partition in a response. With an `error`, a protocol number, `offset` is not valid."""

    offset: int
    leader_epoch: int
    error: int


def list_offsets(
    cluster: BrokerPool[Any],
    wanted: Iterable[tuple[str, int, Leader]],
    *,
    at: int = LATEST,
    isolation: int = READ_UNCOMMITTED,
    deadline: float,
) -> dict[tuple[str, int], ListedOffset]:
    """`at` is a timestamp in ms, EARLIEST or LATEST. With READ_COMMITTED, LATEST is the LSO."""
    found: dict[tuple[str, int], ListedOffset] = {}
    for node, request in requests(wanted, at=at, isolation=isolation).items():
        found |= listed(cluster.send_request(request, deadline, node=node))
    return found


def requests(
    wanted: Iterable[tuple[str, int, Leader]], *, at: int = LATEST, isolation: int
) -> dict[int, ListOffsetsRequest]:
    """One request for each broker that leads some of the partitions."""
    by_node: dict[int, dict[str, list[tuple[int, int]]]] = {}
    for topic, partition, leader in wanted:
        rows = by_node.setdefault(leader.node, {}).setdefault(topic, [])
        rows.append((partition, leader.epoch))
    return {
        node: ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                            partition_index=partition, current_leader_epoch=epoch, timestamp=at
                        )
                        for partition, epoch in rows
                    ],
                )
                for name, rows in topics.items()
            ],
        )
        for node, topics in by_node.items()
    }


def listed(reply: Any) -> dict[tuple[str, int], ListedOffset]:
    """The rows of a response, by partition."""
    return {
        (topic.name, row.partition_index): ListedOffset(
            row.offset, row.leader_epoch, row.error_code
        )
        for topic in reply.topics
        for row in topic.partitions
    }

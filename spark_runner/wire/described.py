"""What brokers tell of transactions (KIP-664): how the last of an id went, where one is open."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from kafka.protocol.admin import DescribeProducersRequest, DescribeTransactionsRequest

from spark_runner.wire.cluster import ClusterClient, Leader

Place = tuple[str, int]
"""(topic, partition)"""


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """A transactional id as its coordinator sees it; `error` is a protocol number, and then the
    rest means nothing. The state is one of Kafka's words: Ongoing, CompleteCommit and so on."""

    error: int
    state: str
    producer_id: int
    epoch: int


@dataclasses.dataclass(frozen=True, slots=True)
class Open:
    """A transaction that is open in a partition: the epoch of its producer, its first offset."""

    epoch: int
    start: int


def describe_transaction(
    cluster: ClusterClient, node: int, transactional_id: str, deadline: float
) -> Described:
    """Asks the broker that should be its coordinator (Kafka 3.0 or newer)."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    row = cluster.ask(request, deadline, node=node).transaction_states[0]
    return Described(
        row.error_code, row.transaction_state or "", row.producer_id, row.producer_epoch
    )


def open_transactions(
    cluster: ClusterClient,
    wanted: Iterable[tuple[str, int, Leader]],
    producer_id: int,
    deadline: float,
) -> tuple[dict[Place, Open | None], dict[Place, int]]:
    """Of this producer, in those partitions that can be looked at (it takes the right to read);
    and the protocol numbers that say why the others cannot."""
    by_node: dict[int, dict[str, list[int]]] = {}
    for topic, partition, leader in wanted:
        by_node.setdefault(leader.node, {}).setdefault(topic, []).append(partition)
    found: dict[Place, Open | None] = {}
    refused: dict[Place, int] = {}
    for node, topics in by_node.items():
        request = DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(name=name, partition_indexes=partitions)
                for name, partitions in topics.items()
            ]
        )
        for topic in cluster.ask(request, deadline, node=node).topics:
            for row in topic.partitions:
                if row.error_code:
                    refused[topic.name, row.partition_index] = row.error_code
                    continue
                found[topic.name, row.partition_index] = next(
                    (
                        Open(one.producer_epoch, one.current_txn_start_offset)
                        for one in row.active_producers
                        if one.producer_id == producer_id and one.current_txn_start_offset >= 0
                    ),
                    None,
                )
    return found, refused

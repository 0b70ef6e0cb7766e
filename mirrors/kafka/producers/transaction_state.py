"""Transactions as brokers describe them (KIP-664): the last one of an id, and open ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from kafka.protocol.admin import DescribeProducersRequest, DescribeTransactionsRequest

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.cluster import Cluster


@dataclasses.dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator describes it.

    `error` is a protocol number; then the other fields are not valid. `state` is Kafka's name:
    Ongoing, CompleteCommit and so on.
    """

    error: int
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int

    @property
    def is_ending(self) -> bool:
        """Whether its markers are still being written."""
        return self.state.startswith("Prepare")


@dataclasses.dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction in a partition: its producer's epoch, its first offset."""

    epoch: int
    start: int


def describe_transaction(
    cluster: Cluster, node: int, transactional_id: str, deadline: float
) -> TransactionDescription:
    """Ask the broker that should be the coordinator (Kafka 3.0 or newer)."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    row = cluster.send_request(request, deadline, node=node).transaction_states[0]
    return TransactionDescription(
        row.error_code,
        row.transaction_state or "",
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
    )


def open_transactions(
    cluster: Cluster,
    node: int,
    partitions: Iterable[TopicPartition],
    producer_id: int,
    deadline: float,
) -> dict[TopicPartition, OpenTransaction | None]:
    """Return open transactions of this producer, in those partitions that this broker leads.

    Without READ permission nobody can tell, now or later: that counts as none.
    """
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    request = DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=numbers)
            for name, numbers in topics.items()
        ]
    )
    found: dict[TopicPartition, OpenTransaction | None] = {}
    for topic in cluster.send_request(request, deadline, node=node).topics:
        for row in topic.partitions:
            if row.error_code not in (Code.NONE, Code.TOPIC_AUTHORIZATION_FAILED):
                continue
            found[topic.name, row.partition_index] = next(
                (
                    OpenTransaction(one.producer_epoch, one.current_txn_start_offset)
                    for one in row.active_producers or ()
                    if one.producer_id == producer_id and one.current_txn_start_offset >= 0
                ),
                None,
            )
    return found

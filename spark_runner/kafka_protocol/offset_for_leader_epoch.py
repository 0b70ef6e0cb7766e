"""OffsetForLeaderEpoch: where a leader epoch ended, to detect truncated logs (KIP-320)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from mirrors.domain.cluster_snapshot import TopicPartition
from spark_runner.kafka_protocol.cluster import ClusterClient

EpochQuery = tuple[str, int, int, int]
"""(topic, partition, current leader epoch, requested epoch)"""

# Clients are not replicas.
_CLIENT = -1


@dataclasses.dataclass(frozen=True, slots=True)
class EpochEnd:
    """The newest epoch of the log that is not above the requested one, and its end offset.

    `error` is a protocol number; then the rest is not valid. The epoch is -1 if the log has none.
    """

    epoch: int
    end: int
    error: int


def epoch_ends(
    cluster: ClusterClient, node: int, wanted: Iterable[EpochQuery], deadline: float
) -> dict[TopicPartition, EpochEnd]:
    """Ask a leader. Requires DESCRIBE on the topics."""
    topics: dict[str, list[tuple[int, int, int]]] = {}
    for topic, *row in wanted:
        topics.setdefault(topic, []).append((row[0], row[1], row[2]))
    return {
        (topic.topic, row.partition): EpochEnd(row.leader_epoch, row.end_offset, row.error_code)
        for topic in cluster.send_request(_request(topics), deadline, node=node).topics
        for row in topic.partitions
    }


def _request(topics: dict[str, list[tuple[int, int, int]]]) -> OffsetForLeaderEpochRequest:
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    return OffsetForLeaderEpochRequest(
        replica_id=_CLIENT,
        topics=[
            kind(
                topic=name,
                partitions=[
                    kind.OffsetForLeaderPartition(
                        partition=partition, current_leader_epoch=current, leader_epoch=epoch
                    )
                    for partition, current, epoch in rows
                ],
            )
            for name, rows in topics.items()
        ],
    )

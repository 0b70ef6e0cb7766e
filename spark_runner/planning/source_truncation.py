"""Truncated source logs, detected by leader epochs before a job copies.

A lane detects a truncation with its first fetch (KIP-320). Until then the partition would look
healthy, its gap closed and a decision on it done. A truncation that was found before is stored with
the position. It remains until the source can be checked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.gaps.lost_ranges import GapFacts, gap_of_source
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.specs import ClusterSpec
from spark_runner.ipc.messages import PartitionError
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.offset_for_leader_epoch import EpochEnd, EpochQuery, epoch_ends
from spark_runner.planning.plan import PlanBuilder
from spark_runner.positions.topic import StoredPositions
from spark_runner.positions.validation import describe_truncation

log = logging.getLogger(__name__)

# For one of several brokers.
_EACH_S = 2.0


def truncated_logs(
    source: ClusterSpec,
    builder: PlanBuilder,
    stored: StoredPositions,
    *,
    is_idle: bool,
    deadline_s: float,
) -> tuple[dict[TopicPartition, PartitionError], list[Position]]:
    """Truncated partitions; and positions that were marked as truncated although the log is intact.

    `is_idle`: nothing is copied now, so all partitions with work are checked. Partitions whose
    leaders do not respond are left to the lane.
    """
    known = {
        tp: row
        for tp, row in stored.positions.items()
        if row.leader_epoch is not None
        and ((is_idle and tp in builder.work) or _is_known_truncation(builder, tp, row))
    }
    if not known:
        return {}, []
    deadline = time.monotonic() + deadline_s
    found: dict[TopicPartition, EpochEnd] = {}
    with contextlib.closing(ClusterClient(source)) as client:
        try:
            for node, wanted in _by_leader(client, known, deadline).items():
                found |= _ends(client, node, wanted, deadline)
        except UnderstudyError as error:
            log.info("The ends of leader epochs are unknown: %s", error.message)
    truncated = {
        tp: _gap(known[tp], end, source.alias)
        for tp, end in found.items()
        if _is_truncated(known[tp], end)
    }
    intact = [
        dataclasses.replace(known[tp], cut_at=None)
        for tp, end in found.items()
        if tp in builder.stopped_work and tp not in truncated and not end.error and end.end >= 0
    ]
    return truncated, intact


def _is_known_truncation(builder: PlanBuilder, tp: TopicPartition, row: Position) -> bool:
    """Whether a truncation found before is the only reason why it is stopped."""
    if row.cut_at is None or tp not in builder.stopped_work:
        return False
    return builder.stopped[tp].gap == gap_of_source(row)


def _by_leader(
    client: ClusterClient, known: dict[TopicPartition, Position], deadline: float
) -> dict[int, list[EpochQuery]]:
    views = client.describe(dict.fromkeys(topic for topic, _ in known), deadline)
    wanted: dict[int, list[EpochQuery]] = {}
    for (topic, partition), row in known.items():
        leader = views[topic].leaders.get(partition)
        if leader is not None and leader.node >= 0:
            wanted.setdefault(leader.node, []).append(
                (topic, partition, leader.epoch, row.leader_epoch or 0)
            )
    return wanted


def _ends(
    client: ClusterClient, node: int, wanted: list[EpochQuery], deadline: float
) -> dict[TopicPartition, EpochEnd]:
    try:
        return epoch_ends(client, node, wanted, min(deadline, time.monotonic() + _EACH_S))
    except KafkaUnavailable as error:
        log.info("Some ends of leader epochs are unknown: %s", error.message)
        return {}


def _is_truncated(known: Position, found: EpochEnd) -> bool:
    """As a leader answers a fetch (KIP-320). An unknown epoch shows in the offset range instead."""
    if found.error or found.epoch < 0 or found.end < 0 or known.leader_epoch is None:
        return False
    return found.end < known.position or found.epoch < known.leader_epoch


def _gap(known: Position, found: EpochEnd, alias: str) -> PartitionError:
    facts = GapFacts(
        kind="truncated",
        position=known.position,
        first=None,
        end=min(found.end, known.position),
        resets=known.resets,
    )
    return PartitionError(
        topic=known.topic,
        partition=known.partition,
        offset=known.position,
        state="gap",
        code="truncated",
        reason=describe_truncation(facts, f"{known.topic}-{known.partition}", alias, found.epoch),
        gap=facts,
    )

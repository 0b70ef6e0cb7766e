"""Detects remote partitions that were truncated below the committed offset.

The committed offset is never above the end of the partition, and each acknowledgement returns an
offset. So the first batch shows a truncation by an offset below the expected one (`stop_reason`).
Idle partitions are checked when an epoch begins (`hanging_transactions.HangingTransactions.begin`).
Later foreign records may hide a truncation, so the position keeps a mark
(`commit_records.CommitRecords`) until a person has decided.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.gaps.lost_ranges import remote_truncation
from mirrors.kafka.error_table import RETRIABLE
from mirrors.kafka.protocol.broker_pool import REQUESTS
from mirrors.kafka.protocol.list_offsets import LATEST, list_offsets
from mirrors.kafka.protocol.metadata import NO_ID, Leader
from mirrors.kafka.retry import retry_until_available
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.positions.validation import describe_remote_truncation

log = logging.getLogger(__name__)

LOOKUP_S = 3.0
NO_LEADER = -1


def stop_reason(partition: Partition, end: int, target: str) -> StopReason:
    """The partition was truncated at `end`, below the committed offset."""
    facts = remote_truncation(
        partition.position, partition.resets, end=end, belongs=partition.committed_downstream
    )
    remote = f"{partition.remote_topic}-{partition.partition}"
    words = describe_remote_truncation(facts, partition.name, remote, target)
    return StopReason("gap", "remote_truncated", words, partition.position, facts)


def prepare(target: ClusterClient, partitions: Iterable[Partition]) -> None:
    """Connect to the leaders while the previous epoch still copies."""
    deadline = time.monotonic() + LOOKUP_S
    try:
        views = target.describe(
            dict.fromkeys(partition.remote_topic for partition in partitions), deadline
        )
        leaders = {leader.node for view in views.values() for leader in view.leaders.values()}
        for node in leaders:
            if node >= 0:
                target.connection(node, REQUESTS, deadline)
    except UnderstudyError as error:
        log.info("remote partitions cannot be looked up yet: %s", error.message)


def truncated(ends: Mapping[Partition, int], target: str) -> dict[Partition, StopReason]:
    """Partitions that end, or wrote our first batch, below the expected offset."""
    return {
        partition: stop_reason(partition, end, target)
        for partition, end in ends.items()
        if end < partition.committed_downstream
    }


def ends(target: ClusterClient, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """End offsets of the remote partitions that are not stopped, with markers and open
    transactions."""
    known = {
        (partition.remote_topic, partition.partition): partition
        for partition in partitions
        if partition.error is None
    }
    found: dict[Partition, int] = {}
    deadline = time.monotonic() + LOOKUP_S

    def look() -> None:
        by_node = by_leader(target, known, deadline)
        by_node.pop(NO_LEADER, None)
        for wanted in by_node.values():
            for tp, row in list_offsets(target, wanted, at=LATEST, deadline=deadline).items():
                partition = known[tp]
                if not row.error:
                    found[partition] = row.offset
                elif row.error not in RETRIABLE and partition.committed_downstream >= 0:
                    # Without the right to look, the first batch shows a truncation.
                    found[partition] = partition.committed_downstream

    try:
        retry_until_available(look, deadline)
    except UnderstudyError as error:
        log.warning("end offsets of remote partitions are unknown: %s", error.message)
    return found


def by_leader(
    target: ClusterClient, known: Mapping[tuple[str, int], Partition], deadline: float
) -> dict[int, list[tuple[str, int, Leader]]]:
    """Partitions by their leader's node id, `NO_LEADER` for none; without recreated topics."""
    if not known:
        return {}
    wanted: dict[int, list[tuple[str, int, Leader]]] = {}
    views = target.describe(dict.fromkeys(topic for topic, _ in known), deadline)
    for (topic, number), partition in known.items():
        leader = Leader(NO_LEADER, -1)
        if (view := views.get(topic)) is not None and not view.error:
            if partition.remote_id not in (view.topic_id, NO_ID):
                continue
            leader = view.leaders.get(number, leader)
        wanted.setdefault(leader.node, []).append((topic, number, leader))
    return wanted

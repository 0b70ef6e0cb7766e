"""Detects replicated records without a position: the positions topic was truncated.

With exactly once, data and positions are committed together. So after the committed downstream
offset there is no committed batch of this flow. Where the remote partition has more, its batches
are read, headers only. Ours are those under a producer id of the flow's slices, or under the id
that wrote the last marker before that offset: ids change in time.

Reading foreign batches is expensive, so only positions that may be old are checked: those written
before the current leader of the positions topic was elected (`position_reader`). No log is
truncated without an election.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.gaps.foreign_records import ObservedBatch, UnmappedRange
from mirrors.domain.gaps.lost_ranges import positions_lost
from mirrors.kafka.producers.coordinator import Coordinator
from mirrors.kafka.producers.identity import ProducerIdentity
from mirrors.kafka.producers.transactions import slice_id
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.recovery.target_batches import read_ranges
from spark_runner.ipc.messages import SliceWork
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.positions.validation import describe_lost_positions

log = logging.getLogger(__name__)

LOOKUP_S = 5.0


def producers_of(
    target: ClusterClient, identity: ProducerIdentity, work: SliceWork
) -> Callable[[float], set[int]]:
    """Returns a function that looks up the producer ids of the flow's slices by a deadline."""

    def ask(deadline: float) -> set[int]:
        found = {identity.producer_id}
        index, is_known = 0, True
        # Earlier plans may have had more slices.
        while is_known or index < work.count:
            known = Coordinator(target, slice_id(work.name, index)).describe(deadline)
            is_known = known is not None
            if known is not None:
                found.add(known.producer_id)
            index += 1
        return found

    return ask


def judge(
    target: ClusterClient,
    ends: Mapping[Partition, int],
    own: Callable[[float], set[int]],
) -> tuple[dict[Partition, StopReason], set[Partition]]:
    """Partitions with own batches after their position, and partitions that need no other
    check.

    The latter have none, or cannot be checked (too much to read, or no right to read) and continue.

    - `ends`: end offsets of partitions that reach beyond the committed downstream offset.
    - `own`: returns our producer ids by a deadline.
    """
    if not ends:
        return {}, set()
    lost: dict[Partition, StopReason] = {}
    looked_at: set[Partition] = set()
    unknown = dict(ends)
    deadline = time.monotonic() + LOOKUP_S
    try:
        known = own(deadline)
        for partition, end in ends.items():
            # The marker before it belongs to our last transaction there.
            span = UnmappedRange(max(0, partition.committed_downstream - 1), end)
            for _, batches in read_ranges(target, partition, [span], deadline):
                del unknown[partition]
                last = last_own_record(partition.committed_downstream, batches, known)
                if last is not None:
                    lost[partition] = _stop_reason(partition, last + 1, target.alias)
            looked_at.add(partition)
    except UnderstudyError as error:
        log.warning("whether positions were lost is unknown: %s", error.message)
        if time.monotonic() >= deadline:
            looked_at.update(ends)
    for partition in unknown:
        log.warning(
            "%s: %s cannot be read from offset %s on, or not in time; whether the target lost "
            "positions is unknown, and replication continues",
            partition.name,
            partition.remote_topic,
            partition.committed_downstream,
        )
    return lost, looked_at - lost.keys()


def last_own_record(start: int, batches: Iterable[ObservedBatch], own: set[int]) -> int | None:
    """The offset of our last committed record from `start` on."""
    ours = set(own)
    last: int | None = None
    for batch in batches:
        if batch.control and batch.last == start - 1:
            ours.add(batch.producer)
        elif batch.producer in ours and batch.records and not batch.control:
            last = batch.last if batch.last >= start else last
    return last


def _stop_reason(partition: Partition, copied: int, target: str) -> StopReason:
    facts = positions_lost(
        partition.position, partition.resets, covered=partition.committed_downstream, copied=copied
    )
    remote = f"{partition.remote_topic}-{partition.partition}"
    words = describe_lost_positions(facts, partition.name, remote, target)
    return StopReason("gap", "positions_lost", words, partition.position, facts)

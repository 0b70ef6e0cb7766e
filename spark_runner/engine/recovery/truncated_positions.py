"""Copies of ours on the target that no position tells of: the positions topic was cut.

Exactly once, data and positions are committed together, so behind the place where our next batch
belongs lies nothing of ours that is committed. Where the remote partition reaches beyond that, its
batches are looked at, headers alone. Ours is what was written under an id of the flow's slices, or
under the one that left the last marker that the position knows: ids change in time.

It costs reading what others have written, so it is asked only of a position that may be old: one
that was written before the present leader of the positions topic led (`recall`), for no log is cut
without that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.gaps.foreign_records import Hole, Seen
from mirrors.domain.gaps.lost_ranges import positions_lost
from mirrors.kafka.producers.coordinator import Coordinator
from mirrors.kafka.producers.producer_id import Identity
from mirrors.kafka.producers.transactions import slice_id
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.recovery.target_batches import read_ranges
from spark_runner.ipc.messages import SliceWork
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.positions.validation import describe_lost_positions

log = logging.getLogger(__name__)

LOOK_S = 5.0


def producers_of(
    target: ClusterClient, identity: Identity, work: SliceWork
) -> Callable[[float], set[int]]:
    """Tells, by a deadline, under which ids the slices of the flow write now."""

    def ask(deadline: float) -> set[int]:
        found = {identity.producer_id}
        index, is_known = 0, True
        # There may have been more slices than there are.
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
    """Those where copies of ours lie behind their positions; and those that need no other look:
    none do, or nobody can tell (more lies there than can be read, or we may not read it), so that
    it is copied on all the same.

    `ends`: where their partitions end, beyond the place where our next batch belongs; `own` tells
    our producers by a deadline.
    """
    if not ends:
        return {}, set()
    lost: dict[Partition, StopReason] = {}
    looked_at: set[Partition] = set()
    unknown = dict(ends)
    deadline = time.monotonic() + LOOK_S
    try:
        known = own(deadline)
        for partition, end in ends.items():
            # The marker before it is that of our last transaction there.
            hole = Hole(max(0, partition.committed_downstream - 1), end)
            for _, seen in read_ranges(target, partition, [hole], deadline):
                del unknown[partition]
                last = last_of_ours(partition.committed_downstream, seen, known)
                if last is not None:
                    lost[partition] = _stop_reason(partition, last + 1, target.alias)
            looked_at.add(partition)
    except UnderstudyError as error:
        log.warning("whether positions were lost is not known: %s", error.message)
        if time.monotonic() >= deadline:
            looked_at.update(ends)
    for partition in unknown:
        log.warning(
            "%s: whether the target lost positions of it is not known, for what lies in %s behind "
            "%s cannot be read, or not in time; it is copied on from there",
            partition.name,
            partition.remote_topic,
            partition.committed_downstream,
        )
    return lost, looked_at - lost.keys()


def last_of_ours(there: int, seen: Iterable[Seen], own: set[int]) -> int | None:
    """The offset of our last committed record from `there` on."""
    ours = set(own)
    last: int | None = None
    for batch in seen:
        if batch.control and batch.last == there - 1:
            ours.add(batch.producer)
        elif batch.producer in ours and batch.records and not batch.control:
            last = batch.last if batch.last >= there else last
    return last


def _stop_reason(partition: Partition, copied: int, target: str) -> StopReason:
    facts = positions_lost(
        partition.position, partition.resets, told=partition.committed_downstream, copied=copied
    )
    remote = f"{partition.remote_topic}-{partition.partition}"
    words = describe_lost_positions(facts, partition.name, remote, target)
    return StopReason("gap", "positions_lost", words, partition.position, facts)

"""Records of one source partition that a rule divides among several target topics.

Each target partition has its own queue, sequence numbers, retries and offset runs. The source
partition has one position, so a commit waits until all of them have what the rules have seen
(docs/adr/0025).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_runner.engine.batches.record_bytes import RecordBytes
from spark_runner.engine.model.partition import Partition

# With more bytes for its further target topics, no more records of a partition are evaluated.
_MOST_BYTES: Final = 2 << 20


def unwritten(partition: Partition) -> int:
    """The number of batches that the rules have seen and a target topic does not have yet."""
    if partition.error is not None:
        return 0
    count = 0
    for member in partition.members:
        count += len(member.in_flight) + len(member.to_retry)
        for batch in member.queue:
            if not batch.is_evaluated:
                break
            count += 1
    return count


def is_full(partition: Partition) -> bool:
    """Whether the further target topics have to accept records before more are evaluated."""
    return sum([route.queued_bytes for route in partition.routes]) > _MOST_BYTES


def divided(
    partition: Partition, pieces: Sequence[RecordBytes], names: Sequence[str | None]
) -> dict[Partition, list[RecordBytes]]:
    """The records of each target partition, in order; `names` are their topics, null for the
    first one."""
    targets: dict[str | None, Partition] = {route.remote_topic: route for route in partition.routes}
    found: dict[Partition, list[RecordBytes]] = {member: [] for member in partition.members}
    for piece, name in zip(pieces, names, strict=True):
        found[targets.get(name, partition)].append(piece)
    return found

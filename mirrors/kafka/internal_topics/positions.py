"""The progress of a flow, read from the positions topic on its target."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterable, Iterator

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import Position, SliceCount, read_position
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.connection.admin_client import DEADLINE_S
from mirrors.kafka.internal_topics.topic import InternalRecord, read_to_end
from mirrors.kafka.internal_topics.topic_tail import LogPosition, find_range, read_range


@dataclasses.dataclass(frozen=True)
class Positions:
    """The last content of a positions topic. `unreadable` counts records that are neither kind.

    `written`: when each position was written, in milliseconds since the epoch.
    """

    positions: dict[TopicPartition, Position]
    written: dict[TopicPartition, int]
    slices: int | None
    unreadable: int


def read_positions(admin: Admin, topic: str, *, deadline_s: float = DEADLINE_S) -> Positions:
    """Read all positions that were committed before the call, by source topic and partition.

    Raises KafkaUnavailable while a transaction stays open there.
    """
    positions: dict[TopicPartition, Position] = {}
    written: dict[TopicPartition, int] = {}
    slices, unreadable = None, 0
    until = time.monotonic() + deadline_s
    tail = find_range(admin, topic, LogPosition(), deadline_s=deadline_s)
    left = max(0.5, until - time.monotonic())
    for at, known in _read(read_range(admin.spec, tail, deadline_s=left) if tail else ()):
        if isinstance(known, SliceCount):
            slices = known.count
        elif isinstance(known, Position):
            positions[known.topic, known.partition] = known
            written[known.topic, known.partition] = at
        else:
            unreadable += 1
    return Positions(positions, written, slices, unreadable)


def count_slices(admin: Admin, topic: str, *, deadline_s: float = DEADLINE_S) -> int:
    """The number of slices of a flow, for fencing. Does not wait for open transactions: they may
    belong to a dead slice. Fencing one slice too many does no harm."""
    rows = _read(read_to_end(admin, topic, committed=False, deadline_s=deadline_s))
    return max((row.count for _, row in rows if isinstance(row, SliceCount)), default=0)


def _read(
    records: Iterable[InternalRecord],
) -> Iterator[tuple[int, Position | SliceCount | None]]:
    """Each record with its time; None for a record that is neither kind."""
    for record in records:
        known = None
        with contextlib.suppress(MalformedRecord):
            known = read_position(record.key, record.value)
        yield record.timestamp, known

"""How far a flow, or an MM2, has copied: as the internal topics on its target say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mirrors.domain.records import (
    ConnectOffset,
    MalformedRecord,
    Position,
    SliceCount,
    read_position,
)
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin import Admin, Place
from mirrors.kafka.connection import DEADLINE_S
from mirrors.kafka.internal import Row, append, read_to_end

CONNECT_PARTITIONS = 25


@dataclasses.dataclass(frozen=True)
class Positions:
    """What a positions topic says last; `strange` counts records that are neither kind."""

    places: dict[Place, Position]
    slices: int | None
    strange: int


def read_positions(admin: Admin, topic: str, *, deadline_s: float = DEADLINE_S) -> Positions:
    """A flow's committed positions, by source topic and partition."""
    places: dict[Place, Position] = {}
    slices, strange = None, 0
    for record in read_to_end(admin, topic, deadline_s=deadline_s):
        try:
            known = read_position(record.key, record.value)
        except MalformedRecord:
            strange += 1
            continue
        if isinstance(known, SliceCount):
            slices = known.count
        else:
            places[known.topic, known.partition] = known
    return Positions(places, slices, strange)


def read_connect_offsets(
    admin: Admin, topic: str, source_alias: str, *, committed: bool, deadline_s: float = DEADLINE_S
) -> dict[Place, int]:
    """Where MM2 stands: the last copied source offset of each partition, removed ones left out.

    `committed` only if that MM2 ran exactly-once: otherwise its records are in no transaction.
    """
    last: dict[Place, int | None] = {}
    for record in read_to_end(admin, topic, committed=committed, deadline_s=deadline_s):
        try:
            row = ConnectOffset.read(record.key, record.value)
        except MalformedRecord:
            continue  # the other connectors' keys live in the same topic
        if row.connector == "MirrorSourceConnector" and row.cluster == source_alias:
            last[row.topic, row.partition] = row.offset
    return {place: offset for place, offset in last.items() if offset is not None}


def append_connect_offsets(
    spec: ClusterSpec,
    topic: str,
    source_alias: str,
    offsets: Mapping[Place, int | None],
    *,
    deadline_s: float = DEADLINE_S,
) -> int:
    """Last copied source offsets for MM2, each in the partition where Java looks; None removes."""
    rows = []
    for (name, number), offset in offsets.items():
        row = ConnectOffset(cluster=source_alias, topic=name, partition=number, offset=offset)
        rows.append(Row(row.key, row.value, row.kafka_partition(CONNECT_PARTITIONS)))
    return append(spec, topic, rows, deadline_s=deadline_s)

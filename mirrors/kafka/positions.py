"""How far a flow has copied: as the positions topic on its target says."""

from __future__ import annotations

import dataclasses

from mirrors.domain.records import MalformedRecord, Position, SliceCount, read_position
from mirrors.kafka.admin import Admin, Place
from mirrors.kafka.connection import DEADLINE_S
from mirrors.kafka.internal import read_to_end


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

"""Where MirrorMaker 2 stands in a source's partitions: read once, when a job takes its flow over.

Invariants:

A. Records of ours in MM2's topic carry a header. Our copy is always behind the positions topic,
   and must not bring back what a person took away there: only what MM2 itself wrote counts.
B. MM2's position counts where it is ahead of ours: it ran before this flow, or since it stopped.
C. It counts only for a remote topic that was there: into a new one, records go from the beginning.
D. No runs tell of what MM2 copied. A row that was taken over says how far it reaches on the target,
   so that a group that stands there is not led to the first record that this flow copied behind it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable

from mirrors.domain.errors import KafkaRefused, UnderstudyError
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import ConnectOffset, Position
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import InternalRecord, read_to_end
from spark_runner.planning.plan import PlanBuilder
from spark_runner.positions.mm2_export import WRITER_HEADER
from spark_runner.positions.topic import Place, StoredPositions


class Mm2Import:
    """What MM2 left for this flow; of use to the first plan of a job, and to no later one."""

    def __init__(self, topic: str, source: str, target: str) -> None:
        self._topic = topic
        self._source = source
        self._target = target
        self._positions: dict[Place, int] = {}
        self.warnings: tuple[str, ...] = ()
        # Partitions whose position could not be taken over yet, and why.
        self.waiting: dict[Place, UnderstudyError] = {}

    def read(self, admin: Admin, *, deadline_s: float) -> None:
        """After the fence of our own predecessors: now nobody of ours writes there."""
        self.warnings = ()
        try:
            # Committed, for MM2's own exactly-once: what was aborted there never happened.
            records = read_to_end(admin, self._topic, deadline_s=deadline_s)
        except KafkaRefused as error:
            self._positions = {}
            self.warnings = (
                f"Whether MirrorMaker 2 ran before cannot be seen: {error.message} If it did, "
                f"stop this flow, allow reading {self._topic}, and start it again.",
            )
        else:
            self._positions = mm2_positions(records, self._source)

    def rows(
        self,
        builder: PlanBuilder,
        stored: StoredPositions,
        created: Container[str],
        target: Admin,
        *,
        deadline_s: float,
    ) -> dict[Place, Position]:
        """The positions that this flow goes on from, as rows of ours."""
        found_earlier, self._positions = self._positions, {}
        self.waiting = {}
        found: dict[Place, Position] = {}
        for place in builder.work:
            known, at = stored.positions.get(place), found_earlier.get(place)
            if at is None or place[0] in created or (known is not None and at <= known.position):
                continue
            # A row that is known keeps its generation, so that another topic is still noticed.
            row = builder.row(place, at) if known is None else known
            # The epoch of an earlier record would have the source called truncated.
            found[place] = dataclasses.replace(row, position=at, leader_epoch=None)
        if found:
            remote = {
                place: (builder.work[place].remote_topic, builder.work[place].partition)
                for place in found
            }
            ends = target.list_offsets(remote.values(), "latest", deadline_s=deadline_s)
            for place, row in list(found.items()):
                if (error := ends.failed.get(remote[place])) is not None:
                    # How far its copies reach is not known yet: this partition waits for the next
                    # plan, and another job reads all of it again.
                    del found[place]
                    self._positions[place] = found_earlier[place]
                    self.waiting[place] = error
                    continue
                # `next_downstream`, where ours ends, stays: by it a log that was cut is found.
                reaches = max(row.map_end or 0, ends.done[remote[place]])
                found[place] = dataclasses.replace(row, map_end=reaches)
        if found:
            count = "one partition goes" if len(found) == 1 else f"{len(found)} partitions go"
            self.warnings = (
                f"{count[:1].upper()}{count[1:]} on where MirrorMaker 2 stood "
                f"({self._topic} on {self._target}). It must not run while this flow does.",
            )
        return found


def mm2_positions(records: Iterable[InternalRecord], source_alias: str) -> dict[Place, int]:
    """The next offset to copy per partition, whatever MM2's connector was called.

    Of several connectors that had a partition, the one that wrote last is meant.
    """
    last: dict[tuple[str, Place], tuple[int, int | None]] = {}
    for record in records:
        try:
            row = ConnectOffset.read(record.key, record.value)
        except MalformedRecord:
            # Other connectors keep their positions there too.
            continue
        if row.cluster == source_alias:
            offset = None if WRITER_HEADER in record.headers else row.offset
            last[row.connector, (row.topic, row.partition)] = (record.timestamp, offset)
    newest: dict[Place, tuple[int, int | None]] = {}
    for (_, place), written in last.items():
        if place not in newest or newest[place][0] <= written[0]:
            newest[place] = written
    return {place: offset + 1 for place, (_, offset) in newest.items() if offset is not None}

"""MirrorMaker 2's source offsets: read once, when a job takes over its flow.

Invariants:

A. This program's records in MM2's topic carry a header. They are always older than the positions
   topic, and must not restore a position that an operator deleted. Only MM2's own records count.
B. MM2's position counts if it is ahead: MM2 ran before this flow, or since this flow stopped.
C. It counts only if the remote topic already existed. A new remote topic is filled from the start.
D. No runs describe what MM2 copied. An imported position records how far MM2's copies reach on the
   target, so that no group there is sent to the first record that this flow copied after them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaRefused, UnderstudyError
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import ConnectOffset, Position
from mirrors.domain.migration.takeover import is_of
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import InternalRecord, read_to_end
from spark_runner.planning.plan import PlanBuilder
from spark_runner.positions.mm2_export import WRITER_HEADER
from spark_runner.positions.topic import StoredPositions


class Mm2Import:
    """The positions that MM2 left. Used by the first plan of a job only."""

    def __init__(self, topic: str, source: str, target: str) -> None:
        self._topic = topic
        self._source = source
        self._target = target
        self._positions: dict[TopicPartition, int] = {}
        self.warnings: tuple[str, ...] = ()
        # Partitions whose position could not be imported yet, and why.
        self.waiting: dict[TopicPartition, UnderstudyError] = {}

    def read(self, admin: Admin, *, deadline_s: float) -> None:
        """Call after fencing predecessors of this flow: then none of them writes the topic."""
        self.warnings = ()
        try:
            # Read committed: with exactly-once, MM2 may have aborted records there.
            records = read_to_end(admin, self._topic, deadline_s=deadline_s)
        except KafkaRefused as error:
            self._positions = {}
            self.warnings = (
                f"It is unknown whether MirrorMaker 2 ran before: {error.message} If it did, stop "
                f"this flow, allow reading {self._topic}, and start it again.",
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
    ) -> dict[TopicPartition, Position]:
        """The positions that this flow resumes from."""
        found_earlier, self._positions = self._positions, {}
        self.waiting = {}
        found: dict[TopicPartition, Position] = {}
        for tp in builder.work:
            known, at = stored.positions.get(tp), found_earlier.get(tp)
            if at is None or tp[0] in created or (known is not None and at <= known.position):
                continue
            # A known row keeps its generation, so that a recreated topic is still detected.
            row = builder.row(tp, at) if known is None else known
            # With the epoch of an earlier record, the broker would report a truncation.
            found[tp] = dataclasses.replace(row, position=at, leader_epoch=None)
        if found:
            remote = {
                tp: (builder.work[tp].remote_topic, builder.work[tp].partition) for tp in found
            }
            ends = target.list_offsets(remote.values(), "latest", deadline_s=deadline_s)
            for tp, row in list(found.items()):
                if (error := ends.failed.get(remote[tp])) is not None:
                    # It is unknown how far MM2's copies reach. The partition waits for the next
                    # plan; a new job would read all of it again.
                    del found[tp]
                    self._positions[tp] = found_earlier[tp]
                    self.waiting[tp] = error
                    continue
                # `next_downstream`, the end of this flow's copies, stays: it reveals a truncation.
                reaches = max(row.map_end or 0, ends.done[remote[tp]])
                found[tp] = dataclasses.replace(row, map_end=reaches)
        if found:
            count = (
                "one partition resumes" if len(found) == 1 else f"{len(found)} partitions resume"
            )
            self.warnings = (
                f"{count[:1].upper()}{count[1:]} where MirrorMaker 2 stopped "
                f"({self._topic} on {self._target}). It must not run while this flow does.",
            )
        return found


def mm2_positions(
    records: Iterable[InternalRecord], source_alias: str
) -> dict[TopicPartition, int]:
    """The next offset of each partition, for any name of MM2's connector.

    If several connectors wrote a partition, the newest record counts.
    """
    last: dict[tuple[str, TopicPartition], tuple[int, int | None]] = {}
    for record in records:
        try:
            row = ConnectOffset.read(record.key, record.value)
        except MalformedRecord:
            # Other connectors store positions in the same topic.
            continue
        if is_of(row, source_alias):
            offset = None if WRITER_HEADER in record.headers else row.offset
            last[row.connector, (row.topic, row.partition)] = (record.timestamp, offset)
    newest: dict[TopicPartition, tuple[int, int | None]] = {}
    for (_, tp), written in last.items():
        if tp not in newest or newest[tp][0] <= written[0]:
            newest[tp] = written
    return {tp: offset + 1 for tp, (_, offset) in newest.items() if offset is not None}

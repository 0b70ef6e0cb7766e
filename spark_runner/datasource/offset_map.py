"""The offset runs of a flow, read from the target's internal topics: which record is which copy."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import Position, read_position
from mirrors.domain.offsets.generation import generation_of
from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import BlockKey, Run, runs_topic
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.kafka.internal_topics.topic import InternalRecord
from mirrors.kafka.internal_topics.topic_tail import LogPosition, TopicReader, pooled_reader
from spark_runner.datasource.service import FlowView

# Seconds for each of the two topics.
_DEADLINE_S = 120.0


Replication = Literal["replicated", "not_replicated", "unknown"]


@dataclasses.dataclass(frozen=True)
class PartitionRuns:
    """The runs of one partition in the order of the target's offsets.

    - `position`: source offset up to which the flow had copied when the runs were read.
    """

    runs: tuple[Run, ...]
    position: int

    def between(self, first: int, end: int, *, upstream: bool) -> OffsetLookup:
        """A look-up for the offsets of one side from `first` up to but without `end`."""
        if not upstream:
            runs = [run for run in self.runs if run.downstream < end]
            return OffsetLookup(
                tuple(
                    (run.downstream, run.length, run.upstream) for run in runs if _ends(run) > first
                )
            )
        rows = ((run.upstream, run.length, run.downstream) for run in later_copies(self.runs))
        found = tuple(row for row in rows if row[0] < end and row[0] + row[1] > first)
        return OffsetLookup(found, position=self.position)


def _ends(run: Run) -> int:
    return run.downstream + run.length


@dataclasses.dataclass(frozen=True)
class OffsetLookup:
    """Offsets of the other side.

    - `rows`: first offset, length, first offset of the other side; ordered, without overlaps.
    - `position`: of the source's records those from here on are not copied; None: unknown, or the
      target's offsets are looked up.
    """

    rows: tuple[tuple[int, int, int], ...] = ()
    position: int | None = None

    def of(self, offset: int) -> int | None:
        """The offset of the same record on the other side; None if no run has it."""
        at = bisect.bisect_right(self.rows, offset, key=lambda row: row[0]) - 1
        if at < 0:
            return None
        first, length, other = self.rows[at]
        return other + offset - first if offset - first < length else None

    def replication(self, offset: int, other: int | None) -> Replication:
        """Whether the record at `offset` is on both sides; `other` is what `of` found.

        A record that no run has may still be a copy: MirrorMaker 2 made it before a takeover, or
        the run is lost. Only from the position on nothing is copied.
        """
        if other is not None:
            return "replicated"
        if self.position is not None and offset >= self.position:
            return "not_replicated"
        return "unknown"


def later_copies(runs: Iterable[Run]) -> list[Run]:
    """The runs without overlaps upstream, in upstream order.

    At least once, a record may have several copies; the later one counts, as in every translation.
    `runs` are in the order of the target's offsets.
    """
    kept: list[Run] = []
    for run in runs:
        end = run.upstream + run.length
        behind: list[Run] = []
        while kept and kept[-1].upstream + kept[-1].length > run.upstream:
            other = kept.pop()
            before = run.upstream - other.upstream
            if before > 0:
                kept.append(Run(other.upstream, other.downstream, before))
            past = other.upstream + other.length - end
            if past > 0:
                skipped = max(0, end - other.upstream)
                start = other.upstream + skipped
                behind.append(Run(start, other.downstream + skipped, other.length - skipped))
            if before > 0:
                break
        kept.append(run)
        kept.extend(reversed(behind))
    return kept


def read_runs(
    flow: FlowView, wanted: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionRuns]:
    """The current runs of these partitions. Calls Kafka; raises UnderstudyError.

    Positions are read first, so that the runs below them are complete.
    """
    spec = FlowSpec(source=flow.source, target=flow.target, properties=flow.properties)
    policy = policy_for(spec.settings, flow.source.alias, flow.target.alias)
    with pooled_reader(flow.target) as reader:
        positions = dict(_positions(_all(reader, policy.positions_topic()), wanted))
        generations = {tp: generation_of(row) for tp, row in positions.items()}
        blocks = _blocks(_all(reader, runs_topic(flow.source.alias)), generations)
    return {
        tp: PartitionRuns(_ordered(blocks.get(tp, {})), positions[tp].position) for tp in positions
    }


def _all(reader: TopicReader, topic: str) -> Iterator[InternalRecord]:
    found = reader.find(topic, LogPosition(), deadline_s=_DEADLINE_S)
    return iter(()) if found is None else reader.read(found, deadline_s=_DEADLINE_S)


def _positions(
    records: Iterator[InternalRecord], wanted: Collection[TopicPartition]
) -> Iterator[tuple[TopicPartition, Position]]:
    for record in records:
        try:
            row = None if record.value is None else read_position(record.key, record.value)
        except (MalformedRecord, ValueError, TypeError, KeyError):
            continue
        if isinstance(row, Position) and (row.topic, row.partition) in wanted:
            yield (row.topic, row.partition), row


def _blocks(
    records: Iterator[InternalRecord], generations: Mapping[TopicPartition, str]
) -> dict[TopicPartition, dict[int, bytes]]:
    """The last version of each block of the current generations, by its first upstream offset."""
    found: dict[TopicPartition, dict[int, bytes]] = {}
    for record in records:
        try:
            key = BlockKey.from_bytes(record.key or b"")
        except MalformedRecord:
            continue
        tp = (key.topic, key.partition)
        if generations.get(tp) != key.generation:
            continue
        blocks = found.setdefault(tp, {})
        if record.value is None:
            blocks.pop(key.first, None)
        else:
            blocks[key.first] = record.value
    return found


def _ordered(blocks: Mapping[int, bytes]) -> tuple[Run, ...]:
    """All runs in the order of the target's offsets."""
    runs = [run for data in blocks.values() for run in read_block(data)]
    return tuple(sorted(runs, key=lambda run: run.downstream))

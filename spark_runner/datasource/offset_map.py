"""The offset runs of a flow, read from the target's internal topics: which record is which copy."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

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
# Source topic, partition, generation.
_MapKey = tuple[str, int, str]


@dataclasses.dataclass(frozen=True)
class PartitionRuns:
    """The runs of one partition.

    - `runs`: by target topic, each in the order of its offsets. With routes there are several.
    - `position`: source offset up to which the flow had copied when the runs were read.
    """

    runs: Mapping[str, tuple[Run, ...]]
    position: int

    def of_source(self, first: int, end: int) -> OffsetLookup:
        """A look-up for source offsets from `first` up to but without `end`."""
        rows = [
            _Row(run.upstream, run.length, run.downstream, remote)
            for remote, runs in self.runs.items()
            for run in later_copies(runs)
        ]
        return OffsetLookup(_within(rows, first, end), position=self.position)

    def of_target(self, remote_topic: str, first: int, end: int) -> OffsetLookup:
        """A look-up for offsets of this target topic from `first` up to but without `end`."""
        rows = [
            _Row(run.downstream, run.length, run.upstream, remote_topic)
            for run in self.runs.get(remote_topic, ())
        ]
        return OffsetLookup(_within(rows, first, end))


class _Row(NamedTuple):
    """Consecutive offsets, the first offset of the other side, and the target topic."""

    first: int
    length: int
    other: int
    remote_topic: str


def _within(rows: Iterable[_Row], first: int, end: int) -> tuple[_Row, ...]:
    return tuple(sorted(row for row in rows if row.first < end and row.first + row.length > first))


class Counterpart(NamedTuple):
    """The same record on the other side: its offset, and the target topic of both."""

    offset: int
    remote_topic: str


@dataclasses.dataclass(frozen=True)
class OffsetLookup:
    """Offsets of the other side.

    - `rows`: ordered, without overlaps.
    - `position`: of the source's records those from here on are not copied; None: unknown, or the
      target's offsets are looked up.
    """

    rows: tuple[_Row, ...] = ()
    position: int | None = None

    def of(self, offset: int) -> Counterpart | None:
        """The same record on the other side; None if no run has it."""
        at = bisect.bisect_right(self.rows, offset, key=lambda row: row.first) - 1
        if at < 0:
            return None
        row = self.rows[at]
        if offset - row.first >= row.length:
            return None
        return Counterpart(row.other + offset - row.first, row.remote_topic)

    def replication(self, offset: int, other: Counterpart | None) -> Replication:
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
        maps = {
            (*tp, generation): remote
            for tp, row in positions.items()
            for generation, remote in _maps(row, policy.remote_topic(tp[0]))
        }
        blocks = _blocks(_all(reader, runs_topic(flow.source.alias)), maps)
    found: dict[TopicPartition, dict[str, tuple[Run, ...]]] = {tp: {} for tp in positions}
    for (topic, number, generation), remote in maps.items():
        runs = _ordered(blocks.get((topic, number, generation), {}))
        found[topic, number][remote] = runs
    return {tp: PartitionRuns(found[tp], row.position) for tp, row in positions.items()}


def _maps(row: Position, remote_topic: str) -> Iterator[tuple[str, str]]:
    """Generation and target topic of each current map of the partition."""
    yield generation_of(row), remote_topic
    for route in row.routes:
        yield generation_of(row, route.topic_id), route.topic


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
    records: Iterator[InternalRecord], maps: Collection[_MapKey]
) -> dict[_MapKey, dict[int, bytes]]:
    """The last version of each block of these maps, by its first upstream offset."""
    found: dict[_MapKey, dict[int, bytes]] = {}
    for record in records:
        try:
            key = BlockKey.from_bytes(record.key or b"")
        except MalformedRecord:
            continue
        at = (key.topic, key.partition, key.generation)
        if at not in maps:
            continue
        blocks = found.setdefault(at, {})
        if record.value is None:
            blocks.pop(key.first, None)
        else:
            blocks[key.first] = record.value
    return found


def _ordered(blocks: Mapping[int, bytes]) -> tuple[Run, ...]:
    """All runs in the order of the target's offsets."""
    runs = [run for data in blocks.values() for run in read_block(data)]
    return tuple(sorted(runs, key=lambda run: run.downstream))

"""One step over some partitions: digests of both sides by chunks, then the records that differ.

Both sides are read at the same pace, so that the time limit leaves complete pairs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.comparison.alignment import Aligner, Difference, Row
from mirrors.domain.comparison.digests import SideDigest, chain, chunk_boundaries, compare_chunks
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import FlowSpec
from mirrors.kafka.reading.comparison import RangePart, RangeReader, with_timestamp
from mirrors.models import ComparisonPart, Flow
from mirrors.services.comparison.compaction import not_explained_by_compaction
from mirrors.services.offsets.translation import translate_offsets

# A step ends when its chunks are read, or after this time: it bounds the length of a slice.
STEP_S = 15.0
ALIGN_S = 30.0
CHUNKS = 32
_MAP_CHANGED = "The offset map changed during the comparison; compare again."
_TOO_SLOW = "Reading one chunk took longer than {seconds:.0f} s; its records are too large."


@dataclasses.dataclass
class ReadBudget:
    """The remaining budget to read; `tick` raises when the comparison must stop."""

    until: float
    bytes_left: int
    tick: Callable[[], None]
    bytes_read: int = 0
    align_until: float = 0.0

    def is_open(self) -> bool:
        return time.monotonic() < self.until and self.bytes_read < self.bytes_left

    def why(self) -> str:
        if self.bytes_read >= self.bytes_left:
            return "The limit of megabytes to read was reached."
        return "The time limit was reached."


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparedChunks:
    """What one step found in one partition; `refusal` says why the partition ends here."""

    part: ComparisonPart
    next: int
    source_records: int = 0
    target_records: int = 0
    digests: tuple[str, str] = ("", "")
    differences: tuple[Difference, ...] = ()
    explained: int = 0
    refusal: str = ""


@dataclasses.dataclass
class _Pair:
    part: ComparisonPart
    source: SideDigest
    target: SideDigest


def compare_chunks_of(
    *, flow: Flow, spec: FlowSpec, parts: Iterable[ComparisonPart], meter: ReadBudget
) -> list[ComparedChunks]:
    """Compare some more chunks of each of these partitions."""
    pairs, steps = _pairs(flow, parts)
    committed = spec.settings.isolation_level == "read_committed"
    failed = _read(spec, pairs, meter, committed=committed)
    meter.align_until = time.monotonic() + ALIGN_S
    for pair in pairs:
        if (error := failed.get(pair.part.pk)) is not None:
            next_ = pair.part.next or 0
            steps.append(ComparedChunks(part=pair.part, next=next_, refusal=error.message))
        else:
            steps.append(_compare(spec, pair, meter, committed=committed))
    return steps


def _pairs(flow: Flow, parts: Iterable[ComparisonPart]) -> tuple[list[_Pair], list[ComparedChunks]]:
    """Chunks of both sides: the map gives a chunk's border on the target."""
    rows = {
        (part.topic, part.partition): (
            part,
            chunk_boundaries(part.next or 0, part.source_end or 0, CHUNKS),
        )
        for part in parts
    }
    answers = translate_offsets(
        flow=flow, partitions={tp: offsets for tp, (_, offsets) in rows.items()}
    )
    pairs: list[_Pair] = []
    steps: list[ComparedChunks] = []
    for tp, (part, offsets) in rows.items():
        there = [row.downstream for row in answers[tp]]
        if part.next == part.source_first:
            there[0] = part.target_first
        if offsets[-1] == part.source_end:
            there[-1] = part.target_end
        known = [offset for offset in there if offset is not None]
        if len(known) < len(there) or known != sorted(known):
            steps.append(ComparedChunks(part=part, next=part.next or 0, refusal=_MAP_CHANGED))
        else:
            pairs.append(_Pair(part, SideDigest(offsets), SideDigest(known)))
    return pairs, steps


def _read(
    spec: FlowSpec, pairs: list[_Pair], meter: ReadBudget, *, committed: bool
) -> dict[int, UnderstudyError]:
    """Fill the digests of both sides alternately; returns why a partition was unreadable."""
    ours = {_here(pair.part): (pair, pair.source) for pair in pairs}
    theirs = {_there(pair.part): (pair, pair.target) for pair in pairs}
    until = time.monotonic() + STEP_S
    with contextlib.ExitStack() as stack:
        sides = [
            (known, stack.enter_context(_stretches(cluster, known, committed=reads)))
            for cluster, known, reads in (
                (spec.source, ours, committed),
                (spec.target, theirs, True),
            )
        ]
        for known, _ in sides:
            for _, digest in known.values():
                if digest.boundaries[0] >= digest.boundaries[-1]:
                    digest.reach(digest.boundaries[-1])
        while any(side.open for _, side in sides) and time.monotonic() < until:
            before = sum(side.bytes for _, side in sides)
            for known, side in sides:
                for tp, read in side.read().items():
                    _fold(known[tp], read)
            meter.bytes_read += sum(side.bytes for _, side in sides) - before
            meter.tick()
            if not meter.is_open():
                break
        return {
            known[tp][0].part.pk: error
            for known, side in sides
            for tp, error in side.failed.items()
        }


def _stretches(
    cluster: object, known: dict[TopicPartition, tuple[_Pair, SideDigest]], *, committed: bool
) -> RangeReader:
    windows = {
        tp: (digest.boundaries[0], digest.boundaries[-1]) for tp, (_, digest) in known.items()
    }
    return RangeReader(cluster, windows, committed=committed)  # type: ignore[arg-type]


def _fold(known: tuple[_Pair, SideDigest], read: RangePart) -> None:
    pair, digest = known
    for row in _faces(pair.part, read.rows):
        digest.add(row.offset, row.digest)
    digest.reach(read.reached)


def _faces(part: ComparisonPart, rows: Iterable[Row]) -> Iterator[Row]:
    if part.keeps_time:
        return map(with_timestamp, rows)
    return (row._replace(parts=row.parts[:3]) for row in rows)


def _compare(spec: FlowSpec, pair: _Pair, meter: ReadBudget, *, committed: bool) -> ComparedChunks:
    part, result = pair.part, compare_chunks(pair.source, pair.target)
    found: list[Difference] = []
    explained = 0
    for first, last in result.ranges:
        differences = _align(spec, pair, first, last, meter, committed=committed)
        kept = differences
        if part.compacted:
            kept = not_explained_by_compaction(
                spec,
                part,
                (pair.source.boundaries[first], pair.target.boundaries[first]),
                differences,
                meter.tick,
            )
        explained += len(differences) - len(kept)
        found += kept
    refusal = ""
    if not result.chunks:
        refusal = meter.why() if not meter.is_open() else _TOO_SLOW.format(seconds=STEP_S)
    return ComparedChunks(
        part=part,
        next=pair.source.boundaries[result.chunks],
        source_records=result.source_records,
        target_records=result.target_records,
        digests=(
            chain(part.source_digest, pair.source, result.chunks),
            chain(part.target_digest, pair.target, result.chunks),
        ),
        differences=tuple(found),
        explained=explained,
        refusal=refusal,
    )


def _align(
    spec: FlowSpec, pair: _Pair, first: int, last: int, meter: ReadBudget, *, committed: bool
) -> list[Difference]:
    """The differing records of chunks whose digests differ."""
    part, aligner = pair.part, Aligner()
    here, there = _here(part), _there(part)
    windows = [
        (side.boundaries[first], side.boundaries[last]) for side in (pair.source, pair.target)
    ]
    with (
        RangeReader(spec.source, {here: windows[0]}, committed=committed) as source,
        RangeReader(spec.target, {there: windows[1]}) as target,
    ):
        aligner.end(left=not source.open, right=not target.open)
        while any(aligner.wants) and not aligner.is_over:
            wants = aligner.wants
            for wanted, side, tp, name in (
                (wants[0], source, here, "left"),
                (wants[1], target, there, "right"),
            ):
                if wanted:
                    read = side.read().get(tp, RangePart())
                    aligner.feed(**{name: list(_faces(part, read.rows))})
                    aligner.end(**{name: not side.open})
            meter.tick()
            failed = [*source.failed.values(), *target.failed.values()]
            if failed or time.monotonic() > meter.align_until:
                return [*aligner.differences(), _unnamed(windows)]
        meter.bytes_read += source.bytes + target.bytes
    return aligner.differences()


def _unnamed(windows: list[tuple[int, int]]) -> Difference:
    """The digests differ, but the differing record could not be read."""
    source, target = (Row(window[0], b"") for window in windows)
    return Difference("apart", source, target)


def _here(part: ComparisonPart) -> TopicPartition:
    return part.topic, part.partition


def _there(part: ComparisonPart) -> TopicPartition:
    return part.remote_topic, part.partition

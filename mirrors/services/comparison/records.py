"""One step over some partitions: digests of both sides by chunks, then the records that differ.

Both sides are read at the same pace, so that the time limit leaves complete pairs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterable

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.comparison.alignment import Aligner, Difference, Row, unnamed_difference
from mirrors.domain.comparison.digests import SideDigest
from mirrors.domain.comparison.range_requests import RangePair
from mirrors.domain.comparison.record_content import content_of, row_of
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import FlowSpec
from mirrors.kafka.reading.comparison import RangePart, RangeReader
from mirrors.models import ComparisonPart, Flow
from mirrors.services.comparison.chunks import (
    ComparedChunks,
    ReadBudget,
    judge_chunks,
    plan_chunks,
)

# A step ends when its chunks are read, or after this time: it bounds the length of a slice.
STEP_S = 15.0
ALIGN_S = 30.0
CHUNKS = 32
_TOO_SLOW = "Reading one chunk took longer than {seconds:.0f} s; its records are too large."


@dataclasses.dataclass
class _Pair:
    part: ComparisonPart
    range: RangePair
    source: SideDigest
    target: SideDigest


def compare_chunks_of(
    *, flow: Flow, spec: FlowSpec, parts: Iterable[ComparisonPart], meter: ReadBudget
) -> list[ComparedChunks]:
    """Compare some more chunks of each of these partitions."""
    planned, steps = plan_chunks(flow=flow, parts=parts, most=CHUNKS)
    pairs = [
        _Pair(part, found, SideDigest(found.source), SideDigest(found.target))
        for part, found in planned
    ]
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
    for record in read.records:
        digest.add(record.offset, content_of(record, with_timestamp=pair.part.keeps_time))
    digest.reach(read.reached)


def _rows(part: ComparisonPart, read: RangePart) -> list[Row]:
    return [row_of(record, with_timestamp=part.keeps_time) for record in read.records]


def _compare(spec: FlowSpec, pair: _Pair, meter: ReadBudget, *, committed: bool) -> ComparedChunks:
    def differences(first: int, last: int) -> list[Difference]:
        return _align(spec, pair, first, last, meter, committed=committed)

    refusal = ""
    if not min(pair.source.complete, pair.target.complete):
        refusal = meter.why() if not meter.is_open() else _TOO_SLOW.format(seconds=STEP_S)
    sums = pair.source, pair.target
    return judge_chunks(
        spec, pair.part, pair.range, sums, differences, tick=meter.tick, refusal=refusal
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
                    aligner.feed(**{name: _rows(part, read)})
                    aligner.end(**{name: not side.open})
            meter.tick()
            failed = [*source.failed.values(), *target.failed.values()]
            if failed or time.monotonic() > meter.align_until:
                return [*aligner.differences(), unnamed_difference(windows[0][0], windows[1][0])]
        meter.bytes_read += source.bytes + target.bytes
    return aligner.differences()


def _here(part: ComparisonPart) -> TopicPartition:
    return part.topic, part.partition


def _there(part: ComparisonPart) -> TopicPartition:
    return part.remote_topic, part.partition

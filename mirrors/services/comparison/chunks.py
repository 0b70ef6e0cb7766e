"""Chunks of partitions: which are compared next, and what their digests say. The same for both
ways of reading: a worker's, and a runner's in Spark."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable

from mirrors.domain.comparison.alignment import Difference
from mirrors.domain.comparison.digests import ChunkSums, chain, chunk_boundaries, compare_chunks
from mirrors.domain.comparison.range_requests import RangePair
from mirrors.domain.specs import FlowSpec
from mirrors.models import ComparisonPart, Flow
from mirrors.services.comparison.compaction import not_explained_by_compaction
from mirrors.services.offsets.translation import translate_offsets

_MAP_CHANGED = "The offset map changed during the comparison; compare again."


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


def plan_chunks(
    *, flow: Flow, parts: Iterable[ComparisonPart], most: int
) -> tuple[list[tuple[ComparisonPart, RangePair]], list[ComparedChunks]]:
    """The next chunks of each partition, at most `most`: the map gives their borders on the target.

    Returns with them what cannot be compared.
    """
    rows = {
        (part.topic, part.partition): (
            part,
            chunk_boundaries(part.next or 0, part.source_end or 0, most),
        )
        for part in parts
    }
    answers = translate_offsets(
        flow=flow, partitions={tp: offsets for tp, (_, offsets) in rows.items()}
    )
    pairs: list[tuple[ComparisonPart, RangePair]] = []
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
            continue
        pair = RangePair(
            part=part.pk,
            topic=part.topic,
            partition=part.partition,
            remote_topic=part.remote_topic,
            keeps_time=part.keeps_time,
            source=tuple(offsets),
            target=tuple(known),
            by_key=part.compacted and part.rule is not None,
        )
        pairs.append((part, pair))
    return pairs, steps


def judge_chunks(
    spec: FlowSpec,
    part: ComparisonPart,
    pair: RangePair,
    sums: tuple[ChunkSums, ChunkSums],
    differences: Callable[[int, int], Iterable[Difference]],
    *,
    tick: Callable[[], None],
    refusal: str = "",
) -> ComparedChunks:
    """The verdict on chunks that were read: their differences without those that compaction
    explains.

    `differences` returns those between two chunks, the second one excluded.
    """
    source, target = sums
    result = compare_chunks(source, target)
    found: list[Difference] = []
    explained = 0
    for first, last in result.ranges:
        rows = list(differences(first, last))
        if part.compacted:
            firsts = pair.source[first], pair.target[first]
            rows, count = not_explained_by_compaction(spec, part, firsts, rows, tick)
            explained += count
        found += rows
    return ComparedChunks(
        part=part,
        next=pair.source[result.chunks],
        source_records=result.source_records,
        target_records=result.target_records,
        digests=(
            chain(part.source_digest, source, result.chunks),
            chain(part.target_digest, target, result.chunks),
        ),
        differences=tuple(found),
        explained=explained,
        refusal=refusal,
    )

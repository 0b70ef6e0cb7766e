"""How fast offsets are translated in an index of very many runs, on the database as it is.

The runs are like those of a source with transactions and compaction: short, with holes between.
Blocks of a few patterns follow one another, so that a hundred million runs are there in minutes.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

from django.db import connection
from django.utils import timezone

from mirrors.domain.offsets.runs import BLOCK_RUNS, OpenBlock, Run
from mirrors.models import Cluster, Flow, FlowPartition, PartitionMap, RunBlock, Runner
from mirrors.models.offsets import BlockRow, store_blocks
from mirrors.services.offsets.translation import translate_offsets

TOPIC = "bench-runs"
_PATTERNS = 64
_ROWS = 2000


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A full block of runs that begins at (0, 0), and where the next one begins behind it."""

    packed: OpenBlock
    upstream: int
    downstream: int

    @classmethod
    def draw(cls, dice: random.Random) -> Pattern:
        run = Run(0, 0, dice.randint(1, 40))
        block = OpenBlock.begin(run)
        for _ in range(BLOCK_RUNS - 1):
            run = _behind(run, dice)
            block = block.add(run)
        following = _behind(run, dice)
        return cls(block, following.upstream, following.downstream)

    def block(self, upstream: int, downstream: int) -> bytes:
        """Behind its head a block says only how far each run is from the one before."""
        first = self.packed.first._replace(upstream=upstream, downstream=downstream)
        return dataclasses.replace(self.packed, first=first).to_bytes()


def _behind(run: Run, dice: random.Random) -> Run:
    """The next run: behind a hole upstream, since what touches on both sides would be one run."""
    return Run(
        run.upstream + run.length + dice.randint(1, 5),
        run.downstream + run.length + dice.randint(0, 2),
        dice.randint(1, 40),
    )


class SampleBlock(NamedTuple):
    """A block, where it begins on both sides, and the upstream offset behind it."""

    upstream: int
    downstream: int
    body: bytes
    end: int


@dataclasses.dataclass(frozen=True)
class FilledIndex:
    """`how` the index came to its runs, and in how many seconds; `ends` of each partition."""

    flow: Flow
    runs: int
    ends: dict[int, int]
    how: str
    seconds: float


@dataclasses.dataclass(frozen=True)
class LookupTimes:
    single_ms: list[float]
    thousand_ms: list[float]


def fill(*, runs: int, partitions: int, seed: int = 1) -> FilledIndex:
    """A flow of its own with that many runs, spread evenly over the partitions of one topic."""
    began = time.monotonic()
    flow = make_flow(partitions)
    ends: dict[int, int] = {}
    drawn = draw(runs=runs, partitions=partitions, seed=seed)
    for partition, blocks in enumerate(drawn):
        found = PartitionMap.objects.create(
            flow=flow, topic=TOPIC, partition=partition, generation="bench"
        )
        while chunk := list(itertools.islice(blocks, _ROWS)):
            store_blocks(
                (found.pk, BlockRow(block.upstream, block.downstream, 0, block.body))
                for block in chunk
            )
            ends[partition] = chunk[-1].end
        found.position = ends[partition]
        found.save(update_fields=["position"])
    seconds = time.monotonic() - began
    return FilledIndex(flow, whole(runs, partitions), ends, "filled", seconds)


def whole(runs: int, partitions: int) -> int:
    """Runs in full blocks, as many in each partition."""
    return max(1, runs // BLOCK_RUNS // partitions) * BLOCK_RUNS * partitions


def draw(*, runs: int, partitions: int, seed: int = 1) -> list[Iterator[SampleBlock]]:
    """The blocks of each partition."""
    dice = random.Random(seed)
    patterns = [Pattern.draw(dice) for _ in range(_PATTERNS)]
    count = whole(runs, partitions) // BLOCK_RUNS // partitions
    return [_blocks(patterns, count, random.Random(seed + at)) for at in range(partitions)]


def _blocks(patterns: list[Pattern], count: int, dice: random.Random) -> Iterator[SampleBlock]:
    upstream = downstream = 0
    for _ in range(count):
        pattern = dice.choice(patterns)
        body, end = pattern.block(upstream, downstream), upstream + pattern.upstream
        yield SampleBlock(upstream, downstream, body, end)
        upstream, downstream = end, downstream + pattern.downstream


def measure(filled: FilledIndex, *, times: int, seed: int = 2) -> LookupTimes:
    """Offsets anywhere: one at a time, and a thousand in one question."""
    dice = random.Random(seed)
    partitions = list(filled.ends)

    def anywhere() -> tuple[int, int]:
        partition = dice.choice(partitions)
        return partition, dice.randrange(filled.ends[partition])

    single = []
    for _ in range(times):
        partition, offset = anywhere()
        single.append(_taken(filled.flow, {(TOPIC, partition): [offset]}))
    thousand = []
    for _ in range(max(5, times // 20)):
        asked: dict[tuple[str, int], list[int]] = {}
        for partition, offset in (anywhere() for _ in range(1000)):
            asked.setdefault((TOPIC, partition), []).append(offset)
        thousand.append(_taken(filled.flow, asked))
    return LookupTimes(single, thousand)


def table(filled: FilledIndex, timed: LookupTimes) -> str:
    packed, taken = _sizes()
    lines = [
        f"{filled.runs:,} runs of {len(filled.ends)} partitions, {filled.how} in "
        f"{filled.seconds:.0f} s: {filled.runs / filled.seconds:,.0f} a second",
        f"{packed / filled.runs:.2f} bytes a run, {taken / filled.runs:.2f} in the database",
        f"{'what':<28}{'median':>12}{'p95':>12}{'worst':>12}",
    ]
    for what, found in (("one offset", timed.single_ms), ("a thousand", timed.thousand_ms)):
        p95 = statistics.quantiles(found, n=20)[-1]
        figures = (statistics.median(found), p95, max(found))
        lines.append(f"{what:<28}" + "".join(f"{figure:>9.2f} ms" for figure in figures))
    return "\n".join(lines)


def _sizes() -> tuple[int, int]:
    """Bytes of all blocks, and of their table with its indexes."""
    table = RunBlock._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT SUM(LENGTH(body)) FROM {table}")
        packed = int(cursor.fetchone()[0])
        if connection.vendor == "sqlite":
            # Next to nothing else is in there.
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        else:
            cursor.execute("SELECT pg_total_relation_size(%s)", [table])
        return packed, int(cursor.fetchone()[0])


def make_flow(partitions: int, bootstrap: str = "bench.example:9092") -> Flow:
    source, target = (
        Cluster.objects.create(alias=alias, bootstrap_servers=bootstrap)
        for alias in ("bench-source", "bench-target")
    )
    runner, _ = Runner.objects.get_or_create(
        name="default", defaults={"master": "local", "slots": 4}
    )
    flow = Flow.objects.create(source=source, target=target, runner=runner)
    now = timezone.now()
    FlowPartition.objects.bulk_create(
        FlowPartition(flow=flow, topic=TOPIC, partition=partition, as_of=now)
        for partition in range(partitions)
    )
    return flow


def _taken(flow: Flow, asked: dict[tuple[str, int], list[int]]) -> float:
    began = time.perf_counter()
    answers = translate_offsets(flow=flow, partitions=asked)
    taken = (time.perf_counter() - began) * 1000
    if any(one.downstream is None for rows in answers.values() for one in rows):
        raise RuntimeError("The index has no answer for an offset that lies in it.")
    return taken

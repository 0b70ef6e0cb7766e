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

from django.utils import timezone

from mirrors.domain.runs import BLOCK_RUNS, OpenBlock, Run
from mirrors.models import Cluster, Flow, FlowPartition, PartitionMap, RunBlock, Runner
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


@dataclasses.dataclass(frozen=True)
class Filled:
    flow: Flow
    runs: int
    ends: dict[int, int]
    seconds: float


@dataclasses.dataclass(frozen=True)
class Timed:
    single_ms: list[float]
    thousand_ms: list[float]


def fill(*, runs: int, partitions: int, seed: int = 1) -> Filled:
    """A flow of its own with so many runs, spread evenly over the partitions of one topic."""
    began = time.monotonic()
    flow = _flow(partitions)
    dice = random.Random(seed)
    patterns = [Pattern.draw(dice) for _ in range(_PATTERNS)]
    blocks = max(1, runs // BLOCK_RUNS // partitions)
    ends: dict[int, int] = {}
    for partition in range(partitions):
        found = PartitionMap.objects.create(
            flow=flow, topic=TOPIC, partition=partition, generation="bench"
        )
        rows = _rows(found.pk, patterns, blocks, dice)
        end = 0
        while chunk := list(itertools.islice(rows, _ROWS)):
            RunBlock.objects.bulk_create([row for row, _ in chunk])
            end = chunk[-1][1]
        ends[partition] = found.position = end
        found.save(update_fields=["position"])
    seconds = time.monotonic() - began
    return Filled(flow, blocks * BLOCK_RUNS * partitions, ends, seconds)


def _rows(
    map_id: int, patterns: list[Pattern], blocks: int, dice: random.Random
) -> Iterator[tuple[RunBlock, int]]:
    """Each row with the upstream offset behind it."""
    upstream = downstream = 0
    for at in range(blocks):
        pattern = dice.choice(patterns)
        body = pattern.block(upstream, downstream)
        row = RunBlock(
            map_id=map_id, first=upstream, downstream=downstream, topic_offset=at, body=body
        )
        upstream += pattern.upstream
        downstream += pattern.downstream
        yield row, upstream


def measure(filled: Filled, *, times: int, seed: int = 2) -> Timed:
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
    return Timed(single, thousand)


def table(filled: Filled, timed: Timed) -> str:
    lines = [
        f"{filled.runs:,} runs of {len(filled.ends)} partitions, filled in {filled.seconds:.0f} s",
        f"{'what':<28}{'median':>12}{'p95':>12}{'worst':>12}",
    ]
    for what, found in (("one offset", timed.single_ms), ("a thousand", timed.thousand_ms)):
        p95 = statistics.quantiles(found, n=20)[-1]
        figures = (statistics.median(found), p95, max(found))
        lines.append(f"{what:<28}" + "".join(f"{figure:>9.2f} ms" for figure in figures))
    return "\n".join(lines)


def _flow(partitions: int) -> Flow:
    source, target = (
        Cluster.objects.create(alias=alias, bootstrap_servers=f"{alias}.example:9092")
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
    answers = translate_offsets(flow=flow, places=asked)
    taken = (time.perf_counter() - began) * 1000
    if any(one.downstream is None for rows in answers.values() for one in rows):
        raise RuntimeError("The index has no answer for an offset that lies in it.")
    return taken

"""The source topics that a cell is measured on: created, filled, read back and digested."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from controlplane.bench.errors import BenchError
from controlplane.bench.workload.content_digests import DigestSequence, read_digest_sequences
from controlplane.bench.workload.producer import fill
from controlplane.bench.workload.scenarios import Scenario
from controlplane.bench.workload.topics import Topics

_READ_RECORDS_S = 50_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """What was put where, its digests, and an empty topic for live traffic."""

    topics: tuple[str, ...]
    live: str
    records: int
    trail: DigestSequence


def prepare(cell: Scenario, source: Topics, stem: str, say: Callable[[str], None]) -> Dataset:
    """New topics named after `stem`, which must be used once only.

    A recreated topic responds slowly.
    """
    topics = tuple(f"{stem}-{number}" for number in range(cell.flows))
    live = f"{stem}-live"
    source.create([*topics, live], cell.partitions)
    total = cell.backlog_mb * 1_000_000
    filled = fill(source.bootstrap, list(topics), cell.partitions, cell.shape, total)
    began = time.monotonic()
    deadline = 60 + filled.total / _READ_RECORDS_S
    trail = read_digest_sequences(source.bootstrap, filled.records, deadline_s=deadline)
    if {tp: len(digests) for tp, digests in trail.items()} != filled.records:
        raise BenchError("The source does not hold what was written to it; try again.")
    say(
        f"  {filled.total:,} records ({cell.backlog_mb:,} MB) written in {filled.seconds:.0f} s, "
        f"read and digested in {time.monotonic() - began:.0f} s"
    )
    return Dataset(topics=topics, live=live, records=filled.total, trail=trail)

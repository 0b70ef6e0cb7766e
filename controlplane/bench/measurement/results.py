"""One run's result as it is written to result.json, and what several runs say together."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from controlplane.bench.workload.scenarios import OPPONENT


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One system on one cell, once. What was not measured, or must not be told, is null.

    A run whose copy was not verified has no speed: then `digest_ok` is false, `failure` says why
    and every figure is null.
    """

    cell: str
    system: str
    label: str
    delivery: str
    lane: str = ""
    record_bytes: int
    codec: str
    batch_bytes: int
    partitions: int
    flows: int
    tasks: int
    tls: bool = False
    # Capacity of the line between the clusters; nothing where it is not limited.
    line_mb_s: float | None = None
    number: int
    started_at: int
    digest_ok: bool
    failure: str = ""
    records: int = 0
    drained: bool = False
    first_record_s: float | None = None
    window_s: float | None = None
    warmed_s: float | None = None
    short_window: bool = False
    cpu_s_per_gb: float | None = None
    opening_cpu_s_per_gb: float | None = None
    source_cpu_s_per_gb: float | None = None
    target_cpu_s_per_gb: float | None = None
    cores: float | None = None
    mb_s: float | None = None
    records_s: float | None = None
    wire_mb_s: float | None = None
    rss_mb: float | None = None
    foreign_cores: float | None = None
    steal: float | None = None
    rate: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    source_p50_ms: float | None = None
    source_p90_ms: float | None = None
    source_p99_ms: float | None = None
    source_max_ms: float | None = None
    live_s: float | None = None
    handovers: int | None = None
    live_cores: float | None = None
    live_wire_mb_s: float | None = None
    idle_cores: float | None = None
    idle_s: float | None = None

    @property
    def all_cpu_s_per_gb(self) -> float | None:
        """The replicator's and both brokers' together."""
        parts = self.cpu_s_per_gb, self.source_cpu_s_per_gb, self.target_cpu_s_per_gb
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spread:
    """Several measurements of one thing."""

    median: float
    least: float
    most: float
    count: int

    def __format__(self, spec: str) -> str:
        if self.count == 1 or self.least == self.most:
            return format(self.median, spec)
        return f"{self.median:{spec}} ({self.least:{spec}}-{self.most:{spec}})"


def spread(values: Iterable[float | None]) -> Spread | None:
    """Median and range of what was measured; None when nothing was."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    return Spread(median=statistics.median(known), least=known[0], most=known[-1], count=len(known))


def ratio(opponent: Spread | None, ours: Spread | None) -> Spread | None:
    """How many times less `ours` is; the range is worst case over best case, not of the medians."""
    if opponent is None or ours is None or ours.least <= 0:
        return None
    return Spread(
        median=opponent.median / ours.median,
        least=opponent.least / ours.most,
        most=opponent.most / ours.least,
        count=min(opponent.count, ours.count),
    )


def grouped(runs: Iterable[Run]) -> dict[str, dict[str, list[Run]]]:
    """Runs by cell, then by label, both in the order of their first run."""
    cells: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        cells.setdefault(run.cell, {}).setdefault(run.label, []).append(run)
    return cells


def cpu_ratio(labels: dict[str, list[Run]], label: str) -> Spread | None:
    """CPU per GB of tuned MirrorMaker 2 over that of `label`, within one cell."""
    if label == OPPONENT:
        return None
    opponent = spread(run.cpu_s_per_gb for run in labels.get(OPPONENT, ()))
    return ratio(opponent, spread(run.cpu_s_per_gb for run in labels[label]))


def speed_ratio(labels: dict[str, list[Run]], label: str) -> Spread | None:
    """MB/s of `label` over that of tuned MirrorMaker 2, within one cell."""
    if label == OPPONENT:
        return None
    opponent = spread(run.mb_s for run in labels.get(OPPONENT, ()))
    return ratio(spread(run.mb_s for run in labels[label]), opponent)


def write(runs: Sequence[Run], path: Path) -> None:
    """Write the list of runs atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [_rounded(dataclasses.asdict(run)) for run in runs]
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(rows, indent=1) + "\n")
    temporary.replace(path)


def read(path: Path) -> list[Run]:
    return [Run(**row) for row in json.loads(path.read_text())]


def _rounded(row: dict[str, object]) -> dict[str, object]:
    return {
        key: float(f"{value:.5g}") if isinstance(value, float) else value
        for key, value in row.items()
    }

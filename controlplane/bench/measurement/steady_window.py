"""From samples taken during a run to its figures over a steady window. Pure functions only."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

# A window shorter than this says little; figures from it are marked.
SHORT_S = 2.0
# The last few per cent are left out: partitions end one by one and the pipeline runs dry.
TAIL = 0.97
WARM_SHARE = 0.25
# What a Java program has not compiled yet costs several times as much, for longer than a start-up.
OPENING_S = 20.0


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a run. `offsets` is the sum of the copy's end offsets; times in seconds."""

    at: float
    offsets: int
    replicator: float
    source: float
    target: float
    tracked: float
    busy: float
    stolen: float
    memory: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """What a run cost and how fast it was, over its steady window."""

    window_s: float
    records_s: float
    mb_s: float
    cpu_s_per_gb: float
    source_cpu_s_per_gb: float
    target_cpu_s_per_gb: float
    cores: float
    foreign_cores: float
    steal: float
    # How long it had copied before the window began.
    warmed_s: float
    short: bool


def first_record_at(samples: Sequence[Sample]) -> float | None:
    """When the first record was seen on the target."""
    began = _began(samples)
    return None if began is None else samples[began].at


def steady(
    samples: Sequence[Sample], *, total: int, warm_s: float, window_s: float
) -> list[Sample]:
    """The samples after warm-up and before the copy runs dry.

    Warm-up is `warm_s`. Where a run is too short for that and a window of `window_s` behind it, the
    window comes first, but a quarter of the time from the first record to the last is left out in
    any case: a system that is done in seconds has nothing to warm up that would not count.
    """
    began = _began(samples)
    if began is None:
        return []
    last = next(
        (at for at, sample in enumerate(samples) if sample.offsets >= total * TAIL),
        len(samples) - 1,
    )
    span = samples[last].at - samples[began].at
    warm_until = samples[began].at + min(warm_s, max(WARM_SHARE * span, span - window_s))
    first = next((at for at in range(began, last) if samples[at].at >= warm_until), began)
    return list(samples[first : last + 1])


def _began(samples: Sequence[Sample]) -> int | None:
    return next((at for at, sample in enumerate(samples) if sample.offsets > 0), None)


def opening(samples: Sequence[Sample], *, total: int) -> list[Sample]:
    """The first OPENING_S of copying, or less when it was over before."""
    began = first_record_at(samples)
    if began is None:
        return []
    return [
        sample
        for at, sample in enumerate(samples)
        if began <= sample.at <= began + OPENING_S
        and (at == 0 or samples[at - 1].offsets < total * TAIL)
    ]


def figures(
    window: Sequence[Sample],
    *,
    record_bytes: int,
    records_per_offset: float = 1.0,
    began_at: float | None = None,
) -> Figures | None:
    """Figures of a window; None when nothing moved in it. `began_at`: when the copying began.

    Transaction markers take offsets too: `records_per_offset` is what the finished copy had.
    """
    if len(window) < 2 or window[-1].offsets <= window[0].offsets:
        return None
    first, last = window[0], window[-1]
    seconds = last.at - first.at
    records = (last.offsets - first.offsets) * records_per_offset
    gigabytes = records * record_bytes / 1e9
    replicator = last.replicator - first.replicator
    return Figures(
        window_s=seconds,
        records_s=records / seconds,
        mb_s=gigabytes * 1000 / seconds,
        cpu_s_per_gb=replicator / gigabytes,
        source_cpu_s_per_gb=(last.source - first.source) / gigabytes,
        target_cpu_s_per_gb=(last.target - first.target) / gigabytes,
        cores=replicator / seconds,
        foreign_cores=foreign(first, last),
        steal=(last.stolen - first.stolen) / seconds,
        warmed_s=first.at - (first.at if began_at is None else began_at),
        short=seconds < SHORT_S,
    )


def foreign(first: Sample, last: Sample) -> float:
    """Cores that were at work for somebody else. Ticks are coarse, so never below zero."""
    busy = (last.busy - first.busy) - (last.tracked - first.tracked)
    return max(0.0, busy / (last.at - first.at))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that `share` of all do not pass: the nearest rank of a sorted sequence."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

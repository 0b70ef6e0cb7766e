"""Samples of a flow's lag and rates, and their aggregation to coarser steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from mirrors.domain.account.totals import Total, is_old
from mirrors.domain.formatting import OLD_AFTER
from monitoring.domain.epoch_time import milliseconds

# How much older than the report the end offsets of the source may be.
ENDS_OLD_AFTER = timedelta(seconds=30)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclasses.dataclass(frozen=True)
class Resolution:
    """History at one step, and for how long it is kept."""

    seconds: int
    keep: timedelta

    @property
    def step(self) -> timedelta:
        return timedelta(seconds=self.seconds)

    def slot(self, moment: datetime) -> datetime:
        """The start of the step that contains the moment."""
        return _EPOCH + (moment - _EPOCH) // self.step * self.step


FINE = Resolution(10, timedelta(hours=48))
MINUTE = Resolution(60, timedelta(days=30))
HOUR = Resolution(3600, timedelta(days=730))
RESOLUTIONS = (FINE, MINUTE, HOUR)

# Of topics, and of partitions that are not in sync.
TOPIC_MINUTE = Resolution(60, timedelta(hours=26))
TOPIC_HOUR = Resolution(3600, timedelta(days=31))
TOPIC_RESOLUTIONS = (TOPIC_MINUTE, TOPIC_HOUR)
# Finished minutes over which the rate of a topic is averaged.
RATE_MINUTES = 5
# Rows of one minute, of the whole installation: those that owe the most first. What this takes on
# disk is in `docs/operations/monitoring/alerts.md`.
MAX_TOPICS = 2_000
MAX_PARTITIONS = 1_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobCounters:
    """Records and bytes of a job at its last report; each job counts from 0."""

    as_of: datetime
    job: int
    records: int
    bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """A flow at one time. An unknown figure is None, never 0."""

    at: datetime
    # The known sum: a lower bound unless `unknown_partitions` is 0; None if nothing is known, or if
    # a part of the source was seen too long ago.
    offset_lag: int | None
    # The same makes it a lower bound; a lower bound of 0 is None.
    time_lag_ms: int | None
    records_per_second: float | None = None
    bytes_per_second: float | None = None
    out_of_sync: int = 0
    unknown_partitions: int = 0
    latency_ms: int | None = None
    heartbeat_age_ms: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """The current figures of a flow."""

    as_of: datetime | None
    counted: JobCounters | None
    account: Total | None
    out_of_sync: int
    latency_ms: int | None = None
    heartbeat_at: datetime | None = None


def figures_as_of(reported: datetime | None, ends: datetime | None) -> datetime | None:
    """The time of the figures: a runner still reports while its source is unreachable.

    Rows of unchanged partitions are rewritten only from time to time, so they may be older.
    """
    if reported is None or ends is None or reported - ends <= ENDS_OLD_AFTER:
        return reported
    return ends if ends > _EPOCH else None  # 0 in a report: never read


def is_fresh(as_of: datetime | None, now: datetime) -> bool:
    return as_of is not None and now - as_of <= OLD_AFTER


def measure(figures: Figures, before: JobCounters | None, now: datetime) -> Sample | None:
    """One sample at the step of `now`; None if the figures are stale."""
    if not is_fresh(figures.as_of, now):
        return None
    records, size = rates(before, figures.counted)
    owed = figures.account
    offset_lag, time_lag_ms = (None, None) if owed is None else _lags(owed, now)
    return Sample(
        at=FINE.slot(now),
        offset_lag=offset_lag,
        time_lag_ms=time_lag_ms,
        unknown_partitions=0 if owed is None else owed.unknown,
        records_per_second=records,
        bytes_per_second=size,
        out_of_sync=figures.out_of_sync,
        latency_ms=figures.latency_ms,
        heartbeat_age_ms=_age_ms(figures.heartbeat_at, now),
    )


def _lags(owed: Total, now: datetime) -> tuple[int | None, int | None]:
    """`offset_lag` and `time_lag_ms` of a sample at `now`."""
    at = milliseconds(now)
    if owed.holds_at(at):
        return owed.records, owed.time_lag_ms
    # Only beside unknown partitions a reader takes the sum for a lower bound. 0 would say nothing.
    known = owed.least if is_old(owed.observed_at, at) else owed.records
    is_known = owed.unknown and owed.certainty != "unknown"
    bound = known if is_known else 0
    return bound or None, owed.time_lag_ms or None


def rates(
    before: JobCounters | None, after: JobCounters | None
) -> tuple[float | None, float | None]:
    """Records and bytes per second between two reports of one job; unknown across two jobs."""
    if before is None or after is None or before.job != after.job:
        return None, None
    seconds = (after.as_of - before.as_of).total_seconds()
    copied, size = after.records - before.records, after.bytes - before.bytes
    if seconds <= 0 or copied < 0 or size < 0:
        return None, None
    return copied / seconds, size / seconds


def mean_rate(counts: Sequence[int | None], seconds: float) -> float | None:
    """The mean per second over all steps but the first, `seconds` each; None if any is unknown.

    A count has what happened since the count before it, so the first step must be known too.
    """
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or len(counts) < 2:
        return None
    return sum(known[1:]) / (seconds * (len(counts) - 1))


def aggregate(samples: Sequence[Sample], at: datetime) -> Sample:
    """Many samples as one: the worst lag and the mean rates."""
    return Sample(
        at=at,
        offset_lag=_worst(sample.offset_lag for sample in samples),
        time_lag_ms=_worst(sample.time_lag_ms for sample in samples),
        records_per_second=_mean(sample.records_per_second for sample in samples),
        bytes_per_second=_mean(sample.bytes_per_second for sample in samples),
        out_of_sync=max((sample.out_of_sync for sample in samples), default=0),
        unknown_partitions=max((sample.unknown_partitions for sample in samples), default=0),
        latency_ms=_worst(sample.latency_ms for sample in samples),
        heartbeat_age_ms=_worst(sample.heartbeat_age_ms for sample in samples),
    )


def downsample(samples: Sequence[Sample], step: timedelta) -> list[Sample]:
    """At most one sample per step, the worst of each; input and output in time order."""
    buckets: dict[datetime, list[Sample]] = {}
    for sample in samples:
        buckets.setdefault(_EPOCH + (sample.at - _EPOCH) // step * step, []).append(sample)
    return [aggregate(found, at) for at, found in buckets.items()]


def insert_breaks(samples: Iterable[Sample], step: timedelta) -> Iterator[Sample]:
    """The same with an unknown sample where samples are missing, so that a line breaks there."""
    last: Sample | None = None
    for sample in samples:
        if last is not None and sample.at - last.at > step * 3:
            yield Sample(at=last.at + step, offset_lag=None, time_lag_ms=None)
        yield sample
        last = sample


def _age_ms(moment: datetime | None, now: datetime) -> int | None:
    return None if moment is None else max(0, (now - moment) // timedelta(milliseconds=1))


def _worst(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None

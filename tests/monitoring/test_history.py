"""Samples of a flow: stale figures give none, and aggregation keeps the worst lag."""

from __future__ import annotations

import dataclasses
import itertools
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrors.domain.account.totals import total
from monitoring.domain.epoch_time import milliseconds
from monitoring.domain.history import (
    FINE,
    MINUTE,
    Figures,
    JobCounters,
    Sample,
    aggregate,
    downsample,
    figures_as_of,
    insert_breaks,
    measure,
    rates,
)
from tests.account_rows import owing

NOW = datetime(2026, 11, 21, 2, 14, 7, tzinfo=UTC)
OPTIONAL = st.none() | st.integers(0, 10**12)
SAMPLES = st.lists(
    st.builds(
        lambda step, lag, age: Sample(
            at=NOW + timedelta(seconds=10 * step), offset_lag=lag, time_lag_ms=age
        ),
        st.integers(0, 500),
        OPTIONAL,
        OPTIONAL,
    ),
    max_size=60,
).map(lambda found: sorted(found, key=lambda sample: sample.at))


def counted(seconds: int, records: int, job: int = 1) -> JobCounters:
    return JobCounters(
        as_of=NOW + timedelta(seconds=seconds), job=job, records=records, bytes=records
    )


def figures(
    age_s: float = 1, lag: int | None = 5, time_lag: int | None = 700, source_age_ms: int = 0
) -> Figures:
    return Figures(
        as_of=NOW - timedelta(seconds=age_s),
        counted=None,
        account=owing(lag, lag_ms=time_lag, seen=milliseconds(NOW) - source_age_ms),
        out_of_sync=1,
    )


def test_a_sample_stands_at_the_beginning_of_its_step() -> None:
    sample = measure(figures(), None, NOW)
    assert sample is not None
    assert sample.at == NOW.replace(second=0)
    assert (sample.offset_lag, sample.time_lag_ms, sample.out_of_sync) == (5, 700, 1)


def test_old_figures_make_no_sample() -> None:
    assert measure(figures(age_s=16), None, NOW) is None


def test_figures_are_as_old_as_the_ends_in_them() -> None:
    assert figures_as_of(NOW, None) == NOW
    assert figures_as_of(NOW, NOW - timedelta(seconds=14)) == NOW
    assert figures_as_of(NOW, NOW - timedelta(minutes=2)) == NOW - timedelta(minutes=2)
    assert figures_as_of(NOW, datetime(1970, 1, 1, tzinfo=UTC)) is None
    assert figures_as_of(None, NOW) is None


def test_nothing_left_to_copy_is_no_time_behind_and_unknown_stays_unknown() -> None:
    done, unknown = measure(figures(lag=0), None, NOW), measure(figures(lag=None), None, NOW)
    assert done is not None
    assert done.time_lag_ms == 0
    assert unknown is not None
    assert unknown.offset_lag is None


def test_a_silent_source_makes_no_sample_of_zero() -> None:
    """A part of the source is silent: what was in step when last seen is not in step now."""
    in_step = measure(figures(lag=0, time_lag=0, source_age_ms=40_000), None, NOW)
    assert in_step is not None
    assert (in_step.offset_lag, in_step.time_lag_ms) == (None, None)
    behind = measure(figures(lag=5, time_lag=700, source_age_ms=40_000), None, NOW)
    assert behind is not None
    # The age is a lower bound; the sum cannot say that it is one.
    assert (behind.offset_lag, behind.time_lag_ms) == (None, 700)
    # With an unknown part the sum reads as a lower bound: of an old source, the proven one.
    partly = owing(1000, lag_ms=700, seen=milliseconds(NOW) - 40_000, unknown=1)
    for least in (0, 40):
        some = dataclasses.replace(figures(), account=partly._replace(least=least))
        sample = measure(some, None, NOW)
        assert sample is not None
        assert (sample.offset_lag, sample.unknown_partitions) == (least or None, 1)
    # Its topics were never listed.
    never = measure(dataclasses.replace(figures(), account=total([])), None, NOW)
    assert never is not None
    assert (never.offset_lag, never.time_lag_ms) == (None, None)


def test_a_rate_is_told_within_one_job_only() -> None:
    assert rates(counted(0, 100), counted(10, 600)) == (50.0, 50.0)
    assert rates(counted(0, 100), counted(10, 600, job=2)) == (None, None)
    assert rates(counted(0, 100), counted(0, 100)) == (None, None)
    assert rates(counted(0, 100), counted(10, 40)) == (None, None)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SAMPLES)
def test_thinning_keeps_the_worst_and_the_order(samples: list[Sample]) -> None:
    thinned = downsample(samples, MINUTE.step)
    assert [one.at for one in thinned] == sorted({MINUTE.slot(one.at) for one in samples})
    for value in ("offset_lag", "time_lag_ms"):
        known = [getattr(one, value) for one in samples if getattr(one, value) is not None]
        kept = [getattr(one, value) for one in thinned if getattr(one, value) is not None]
        assert max(kept, default=None) == max(known, default=None)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SAMPLES)
def test_a_line_breaks_where_samples_are_missing_and_loses_none(samples: list[Sample]) -> None:
    drawn = list(insert_breaks(samples, FINE.step))
    assert [one for one in drawn if one in samples] == samples
    for one, two in itertools.pairwise(drawn):
        far = two.at - one.at > FINE.step * 3
        assert not far or None in (one.offset_lag, two.offset_lag)


def test_a_rate_of_many_samples_is_their_mean_over_what_is_known() -> None:
    facts = {"at": NOW, "offset_lag": 1, "time_lag_ms": 1}
    samples = [Sample(**facts, records_per_second=rate) for rate in (10.0, None, 20.0)]
    assert aggregate(samples, NOW).records_per_second == 15.0
    assert aggregate([], NOW).records_per_second is None

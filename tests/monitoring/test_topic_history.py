"""Samples of topics and partitions: what was replicated in each step, and what was owed."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import Sum
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from mirrors.domain.runners.job_files import JobStatus, PartitionStatus, TopicStatus
from mirrors.models import Flow, FlowPartition, FlowTopic, Job
from mirrors.services.clock import milliseconds
from mirrors.services.flows import progress
from monitoring.domain.history import TOPIC_HOUR, TOPIC_MINUTE
from monitoring.history import topic_collector
from monitoring.history.row_updates import update_rows
from monitoring.models import FullStep, PartitionSample, TopicSample
from tests.pages import world

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def flow(db: None) -> Flow:
    return world.flow(as_of=NOON)


def report(
    flow: Flow, job: Job, at: datetime, records: int, *, owed: int = 0, topic: str = "orders"
) -> None:
    """The runner's status of one topic with one partition is stored."""
    seen = milliseconds(at)
    partition = PartitionStatus(
        topic=topic, partition=0, remote_topic=f"a.{topic}", state="syncing" if owed else "in_sync",
        reason="", position=1_000 + records, source_end=1_000 + records + owed,
        source_stable_end=1_000 + records + owed, time_lag_ms=7_000 if owed else 0, lane="raw",
        as_of=seen, records=records, bytes=records * 10,
    )  # fmt: skip
    status = JobStatus(
        job=job.pk, flow=flow.pk, generation=1, state="running", reason="", started_at=seen,
        as_of=seen, records=records, bytes=records * 10, partitions=(partition,),
        topics=(
            TopicStatus(
                topic=topic, remote_topic=f"a.{topic}", state=partition.state, reason="",
                partitions=1, records=records, bytes=records * 10,
            ),
        ),
    )  # fmt: skip
    assert progress.ingest(flow=flow, job=job, status=status)
    topic_collector.collect(now=at)


def samples(flow: Flow, resolution: int = TOPIC_MINUTE.seconds) -> list[tuple[int, int, int, int]]:
    rows = TopicSample.objects.filter(flow=flow, resolution=resolution).order_by("at")
    return [
        (round((row.at - NOON).total_seconds()), row.records, row.bytes, row.owed) for row in rows
    ]


def at(seconds: int) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_a_minute_has_what_was_replicated_since_the_sample_before(flow: Flow) -> None:
    job = world.job(flow, as_of=None)
    report(flow, job, at(1), 5, owed=2)
    report(flow, job, at(20), 30)
    report(flow, job, at(65), 40)
    # Nothing moved and nothing is owed: no row.
    report(flow, job, at(125), 40)
    report(flow, job, at(185), 100)
    assert samples(flow) == [(0, 5, 50, 2), (60, 35, 350, 0), (180, 60, 600, 0)]
    assert FlowTopic.objects.get().records == 100


def test_what_a_job_reported_last_counts_although_the_next_report_is_of_another_job(
    flow: Flow,
) -> None:
    first = world.job(flow, as_of=None)
    report(flow, first, at(1), 50)
    report(flow, first, at(2), 80)
    Job.objects.filter(pk=first.pk).update(ended_at=at(3))
    report(flow, world.job(flow, as_of=None), at(65), 7)
    assert FlowTopic.objects.get().records == 87


def test_counts_go_on_over_jobs_and_a_scan_of_the_source(flow: Flow) -> None:
    first = world.job(flow, as_of=None)
    report(flow, first, at(1), 50)
    Job.objects.filter(pk=first.pk).update(ended_at=at(30))
    # Between two jobs, a scan of the source keeps the rows.
    seen = FlowPartition.objects.get()
    progress.store(
        flow=flow, topics=[TopicStatus(
            topic="orders", remote_topic="a.orders", state="in_sync", reason="", partitions=1)],
        partitions=[PartitionStatus(
            topic="orders", partition=0, remote_topic="a.orders", state="in_sync", reason="",
            position=seen.position, source_end=seen.source_end, source_stable_end=seen.source_end,
            time_lag_ms=0, lane="", as_of=milliseconds(at(40)))],
        not_visible="", as_of=at(40), is_swept=True,
    )  # fmt: skip
    assert (FlowTopic.objects.get().records, FlowPartition.objects.get().records) == (50, 50)
    report(flow, world.job(flow, as_of=None), at(65), 7)
    assert (FlowTopic.objects.get().records, FlowTopic.objects.get().bytes) == (57, 570)
    assert samples(flow) == [(0, 50, 500, 0), (60, 7, 70, 0)]


def test_partitions_have_samples_while_they_are_not_in_sync(flow: Flow) -> None:
    job = world.job(flow, as_of=None)
    report(flow, job, at(1), 5, owed=40)
    report(flow, job, at(65), 45)
    [row] = PartitionSample.objects.all()
    assert (row.topic, row.partition, row.owed, row.time_lag_ms) == ("orders", 0, 40, 7_000)


def test_stale_figures_have_no_sample(flow: Flow) -> None:
    report(flow, world.job(flow, as_of=None), at(1), 5, owed=40)
    topic_collector.collect(now=at(65))
    assert len(samples(flow)) == 1


def test_a_minute_has_at_most_so_many_rows_and_loses_no_counts(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_collector, "MAX_TOPICS", 2)
    for number in range(5):
        world.topic(flow, f"t{number}", offset_lag=0)
    FlowTopic.objects.filter(flow=flow).update(as_of=at(1), records=9, bytes=90)
    assert topic_collector.collect(now=at(1)) == 2
    # The collector comes every ten seconds.
    for seconds in (11, 51):
        FlowTopic.objects.filter(flow=flow).update(as_of=at(seconds))
        assert topic_collector.collect(now=at(seconds)) == 0
    # What the first minute left out is in the next ones.
    FlowTopic.objects.filter(flow=flow).update(as_of=at(130))
    for seconds in (61, 121):
        FlowTopic.objects.filter(flow=flow).update(as_of=at(seconds))
        topic_collector.collect(now=at(seconds))
    found = TopicSample.objects.values("topic").annotate(Sum("records")).order_by("topic")
    assert [row["records__sum"] for row in found] == [9] * 5
    minutes = FullStep.objects.filter(of_topics=True, resolution=TOPIC_MINUTE.seconds)
    assert list(minutes.values_list("at", flat=True)) == [at(0), at(60)], "the last one has a row"
    topic_collector.roll_up(now=at(3_605))
    [hour] = FullStep.objects.filter(resolution=TOPIC_HOUR.seconds)
    assert (hour.of_topics, hour.at) == (True, NOON)
    topic_collector.prune(now=NOON + TOPIC_HOUR.keep + timedelta(minutes=10))
    assert not FullStep.objects.exists()


def test_an_update_of_many_rows_makes_no_deleted_one_again(flow: Flow) -> None:
    kept, gone = world.topic(flow, "kept"), world.topic(flow, "gone")
    FlowTopic.objects.filter(topic="gone").delete()
    for row in (kept, gone):
        row.sampled_records, row.sampled_at, row.records = 7, at(0), 99
    update_rows([kept, gone], ("sampled_records", "sampled_at"))
    [row] = FlowTopic.objects.all()
    assert (row.sampled_records, row.sampled_at, row.records) == (7, at(0), 0)
    update_rows([], ("sampled_records",))


def test_hours_have_the_worst_minute_and_the_sum_and_old_samples_go(flow: Flow) -> None:
    job = world.job(flow, as_of=None)
    for minute, (records, owed) in enumerate([(10, 5), (20, 90), (50, 0)]):
        report(flow, job, at(60 * minute + 1), records, owed=owed)
    topic_collector.roll_up(now=at(3_599))
    assert samples(flow, TOPIC_HOUR.seconds) == []
    topic_collector.roll_up(now=at(3_605))
    topic_collector.roll_up(now=at(3_700))
    assert samples(flow, TOPIC_HOUR.seconds) == [(0, 50, 500, 90)]
    [row] = PartitionSample.objects.filter(resolution=TOPIC_HOUR.seconds)
    assert row.owed == 90
    topic_collector.prune(now=NOON + TOPIC_MINUTE.keep + timedelta(minutes=10))
    assert (len(samples(flow)), len(samples(flow, TOPIC_HOUR.seconds))) == (0, 1)
    topic_collector.prune(now=NOON + TOPIC_HOUR.keep + timedelta(minutes=10))
    assert not TopicSample.objects.exists()
    assert not PartitionSample.objects.exists()


class TestCounts(TestCase):
    @settings(max_examples=30)
    @given(jobs=st.lists(st.lists(st.integers(0, 1_000), min_size=1, max_size=4), max_size=4))
    def test_samples_sum_to_what_all_jobs_replicated(self, jobs: list[list[int]]) -> None:
        flow = world.flow(as_of=NOON)
        minutes = itertools.count()
        for growth in jobs:
            Job.objects.filter(flow=flow, ended_at=None).update(ended_at=NOON)
            job = world.job(flow, as_of=None)
            for total in itertools.accumulate(growth):
                report(flow, job, at(60 * next(minutes) + 1), total)
        wanted = sum(map(sum, jobs))
        found = TopicSample.objects.filter(flow=flow).aggregate(Sum("records"))["records__sum"]
        assert (found or 0) == wanted
        flow.delete()

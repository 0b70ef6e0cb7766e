"""The last status of a flow outlives its job: a failover needs it."""

from __future__ import annotations

import pytest
from django.utils import timezone

from mirrors.domain.runners.job_files import JobState, JobStatus, PartitionStatus, TopicStatus
from mirrors.models import Flow, FlowPartition, FlowTopic, Job
from mirrors.services.clock import milliseconds, moment
from mirrors.services.flows import progress
from tests.pages import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def flow(db: None) -> Flow:
    """It has copied up to 90 of 100 records when its source was last seen."""
    made = world.flow(world.cluster("east"), world.cluster("west"))
    topic = TopicStatus(
        topic="orders", remote_topic="east.orders", state="lagging", reason="", partitions=1
    )
    row = PartitionStatus(
        topic="orders", partition=0, remote_topic="east.orders", state="lagging", reason="",
        position=90, source_end=101, source_stable_end=100, time_lag_ms=7, lane="raw",
        as_of=milliseconds(timezone.now()), repeats=3,
    )  # fmt: skip
    says(made, world.job(made), "running", topics=(topic,), partitions=(row,))
    return made


def says(
    flow: Flow,
    job: Job,
    state: JobState,
    *,
    topics: tuple[TopicStatus, ...] = (),
    partitions: tuple[PartitionStatus, ...] = (),
    is_planned: bool = True,
) -> None:
    status = JobStatus(
        job=job.pk, flow=flow.pk, generation=1, state=state, reason="", started_at=0,
        as_of=milliseconds(timezone.now()), topics=topics, partitions=partitions,
        is_planned=is_planned,
    )  # fmt: skip
    assert progress.ingest(flow=flow, job=job, status=status)


@pytest.mark.parametrize("state", ["starting", "degraded", "paused", "stopped", "failed"])
def test_a_job_that_has_no_plan_yet_takes_nothing_away(flow: Flow, state: JobState) -> None:
    """Restarted while the source does not answer, a flow cannot plan for as long as that lasts."""
    Job.objects.filter(flow=flow).update(ended_at=timezone.now(), state="lost")
    seen = FlowPartition.objects.get(flow=flow)
    says(flow, world.job(flow), state, is_planned=False)
    kept = FlowPartition.objects.get(flow=flow)
    assert (kept.position, kept.source_stable_end, kept.repeats) == (90, 100, 3)
    assert kept.as_of == seen.as_of, "an old figure keeps its age"
    assert FlowTopic.objects.get(flow=flow).offset_lag == 10


def test_a_plan_without_the_topic_takes_it_away(flow: Flow) -> None:
    skipped = TopicStatus(
        topic="orders", remote_topic=None, state="skipped", reason="excluded", partitions=1
    )
    says(flow, Job.objects.get(flow=flow), "running", topics=(skipped,))
    assert not FlowPartition.objects.filter(flow=flow).exists()
    assert FlowTopic.objects.get(flow=flow).state == "skipped"


def test_a_plan_without_any_topic_takes_all_away(flow: Flow) -> None:
    says(flow, Job.objects.get(flow=flow), "running")
    assert not FlowPartition.objects.filter(flow=flow).exists()
    assert not FlowTopic.objects.filter(flow=flow).exists()


def test_a_topic_is_as_young_as_its_partitions_once_the_source_responds_again(flow: Flow) -> None:
    job, topic = Job.objects.get(flow=flow), TopicStatus(
        topic="orders", remote_topic="east.orders", state="lagging", reason="", partitions=1
    )  # fmt: skip
    now = milliseconds(timezone.now())

    def seen(at: int) -> None:
        row = PartitionStatus(
            topic="orders", partition=0, remote_topic="east.orders", state="lagging", reason="",
            position=90, source_end=101, source_stable_end=100, time_lag_ms=7, lane="raw",
            as_of=at, repeats=3,
        )  # fmt: skip
        says(flow, job, "running", topics=(topic,), partitions=(row,))

    # The same figures: reported while the source did not respond, then once it did.
    FlowTopic.objects.filter(flow=flow).delete()
    FlowPartition.objects.filter(flow=flow).delete()
    seen(now - 25_000)
    seen(now)
    row, part = FlowTopic.objects.get(flow=flow), FlowPartition.objects.get(flow=flow)
    assert row.observed_at == part.as_of == moment(now)

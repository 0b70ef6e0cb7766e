"""At least once: the number of duplicates on the target, on the page, over REST and as a metric."""

from __future__ import annotations

import dataclasses

import pytest
from django.utils import timezone

from mirrors.domain.runners.job_files import JobStatus, PartitionStatus, TopicStatus
from mirrors.models import Flow
from mirrors.services.clock import milliseconds
from mirrors.services.flows import progress
from tests.pages import world
from tests.pages.conftest import As

PART = PartitionStatus(
    topic="orders", partition=0, remote_topic="c.orders", state="in_sync", reason="", position=9,
    source_end=9, source_stable_end=9, time_lag_ms=0, lane="raw", as_of=0, repeats=40,
)  # fmt: skip


def say(
    flow: Flow,
    *partitions: PartitionStatus,
    topics: tuple[TopicStatus, ...] = (),
    seconds: int = 0,
) -> None:
    job = flow.jobs.first() or world.job(flow)
    now = milliseconds(timezone.now()) + 1000 * seconds
    status = JobStatus(
        job=job.pk, flow=flow.pk, generation=1, state="running", reason="", started_at=0,
        as_of=now, topics=topics,
        partitions=tuple(dataclasses.replace(each, as_of=now) for each in partitions),
    )  # fmt: skip
    assert progress.ingest(flow=flow, job=job, status=JobStatus.from_json(status.to_json()))


@pytest.fixture
def flow(db: None) -> Flow:
    return world.flow(properties={"delivery": "at_least_once"})


def test_the_number_is_the_same_everywhere(signed_in: As, flow: Flow) -> None:
    say(flow, PART, dataclasses.replace(PART, partition=1, repeats=2))
    viewer = signed_in("viewer")
    page = viewer.get(f"/flows/{flow.pk}/").content.decode()
    assert "Written twice</dt><dd>42<" in page
    assert viewer.get(f"/api/v1/flows/{flow.pk}/").json()["repeats"] == 42
    rows = viewer.get(f"/api/v1/flows/{flow.pk}/partitions/").json()["results"]
    assert [row["repeats"] for row in rows] == [40, 2]
    scraped = viewer.get("/metrics").content.decode()
    (line,) = (row for row in scraped.splitlines() if row.startswith("understudy_flow_repeats"))
    assert line.endswith(" 42.0")


def test_what_is_behind_by_an_unknown_age_is_not_said_to_be_0_s_old(
    signed_in: As, flow: Flow
) -> None:
    """After a restart a partition that stands at a gap has no age until it moves."""
    told = TopicStatus(
        topic="orders", remote_topic="c.orders", state="gap", reason="", partitions=2
    )  # fmt: skip
    stands = dataclasses.replace(PART, partition=1, source_end=50, source_stable_end=50)
    say(flow, PART, dataclasses.replace(stands, time_lag_ms=None), topics=(told,))
    viewer = signed_in("viewer")
    seen = viewer.get(f"/api/v1/flows/{flow.pk}/").json()
    assert (seen["offset_lag"], seen["time_lag_ms"]) == (41, None)
    assert flow.topics.get().time_lag_ms is None
    say(flow, PART, dataclasses.replace(stands, time_lag_ms=7), topics=(told,), seconds=1)
    assert viewer.get(f"/api/v1/flows/{flow.pk}/").json()["time_lag_ms"] == 7
    say(flow, PART, topics=(told,), seconds=2)
    assert viewer.get(f"/api/v1/flows/{flow.pk}/").json()["time_lag_ms"] == 0


def test_a_slice_that_has_only_begun_takes_nothing_back(flow: Flow) -> None:
    say(flow, PART)
    say(flow, dataclasses.replace(PART, repeats=None, position=10), seconds=1)
    row = flow.partitions.get()
    assert (row.position, row.repeats) == (10, 40)


def test_exactly_once_has_nothing_to_say(signed_in: As, flow: Flow) -> None:
    Flow.objects.filter(pk=flow.pk).update(properties={})
    say(flow, dataclasses.replace(PART, repeats=0))
    viewer = signed_in("viewer")
    assert "Written twice" not in viewer.get(f"/flows/{flow.pk}/").content.decode()
    assert viewer.get(f"/api/v1/flows/{flow.pk}/").json()["repeats"] == 0

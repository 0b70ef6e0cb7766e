"""What limits a flow's speed: on its page and over REST, with what to change."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.flows.speed_limits import SliceSpeed, SpeedLimit
from mirrors.domain.runners.job_files import JobStatus, SliceStatus
from mirrors.models import Flow, Job
from mirrors.services.clock import milliseconds
from mirrors.services.flows import progress
from tests.pages import world

FULL = SpeedLimit(
    name="target_window",
    share=0.92,
    seconds=30,
    side="target",
    part="bytes",
    in_flight_bytes=16_000_000,
    window_bytes=16_000_000,
    response_ms=104.0,
    shares={"target_window": 0.92, "processor": 0.08},
)
STATE = (
    "Speed limit: target window: 16 MB in flight to west, full for 92% of the last 30 s "
    "(RTT 100 ms, a request takes 104 ms)."
)


def status(job: Job, *speeds: SliceSpeed) -> JobStatus:
    rows = [
        SliceStatus(
            index=at,
            state="copying",
            reason="",
            epoch=1,
            partitions=1,
            records=1,
            bytes=1,
            records_per_second=1,
            bytes_per_second=1,
            pid=1,
            as_of=1,
            speed=speed,
        )
        for at, speed in enumerate(speeds)
    ]
    now = milliseconds(timezone.now())
    return JobStatus(
        job=job.pk,
        flow=job.flow_id,
        generation=1,
        state="running",
        reason="",
        started_at=now,
        as_of=now,
        slices=tuple(rows),
    )


@pytest.fixture
def flow(db: None) -> Flow:
    found = world.flow(world.cluster("east"), world.cluster("west"))
    job = world.job(found)
    slow = SliceSpeed(limit=FULL, source_rtt_ms=0.4, target_rtt_ms=100.2)
    # As the runner writes it, and as the control plane reads it.
    text = status(job, slow, SliceSpeed()).to_json()
    assert progress.ingest(flow=found, job=job, status=JobStatus.from_json(text))
    return found


def test_the_page_says_what_binds_and_what_to_change(viewer: Client, flow: Flow) -> None:
    page = viewer.get(f"/flows/{flow.pk}/").content.decode()
    assert STATE in page
    assert "Raise tasks.max" in page


def test_rest_has_the_figures_and_the_sentences(viewer: Client, flow: Flow) -> None:
    speed = viewer.get(f"/api/v1/flows/{flow.pk}/").json()["speed"]
    assert speed.pop("limit") == dataclasses.asdict(FULL)
    assert speed.pop("advice").startswith("Raise tasks.max")
    assert speed == {
        "source_rtt_ms": 0.4,
        "target_rtt_ms": 100.2,
        "slices": 1,
        "limited_slices": 1,
        "state": STATE,
    }


@pytest.mark.parametrize("change", ["stopped", "old"])
def test_a_flow_that_does_not_run_has_no_limit_of_speed(
    viewer: Client, flow: Flow, change: str
) -> None:
    late = timezone.now() - timedelta(minutes=1)
    new = {"observed_state": "stopped"} if change == "stopped" else {"as_of": late}
    Flow.objects.filter(pk=flow.pk).update(**new)
    assert viewer.get(f"/api/v1/flows/{flow.pk}/").json()["speed"] is None
    assert "Speed limit" not in viewer.get(f"/flows/{flow.pk}/").content.decode()


def test_a_status_file_of_an_older_runner_is_read(flow: Flow) -> None:
    raw = dataclasses.asdict(status(flow.jobs.get(), SliceSpeed()))
    del raw["slices"][0]["speed"]
    row = SliceStatus.from_dict(raw["slices"][0])
    assert row.speed == SliceSpeed()

"""Records that others wrote into a remote topic: told on the tab of gaps and over REST."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.continuity.strangers import Stretch
from mirrors.domain.jobs import JobStatus, PartitionStatus
from mirrors.models import Flow, Gap
from mirrors.services.strangers import fold
from tests.pages import world


@pytest.fixture
def event(db: None) -> Gap:
    flow: Flow = world.busy()
    part = PartitionStatus(
        topic="orders", partition=0, remote_topic="primary.orders", state="in_sync", reason="",
        position=9, source_end=9, source_stable_end=9, time_lag_ms=0, lane="raw", as_of=0,
        remote_topic_id="T1", strangers=(Stretch(41, 43, 3), Stretch(50, 50, 1)),
    )  # fmt: skip
    status = JobStatus(
        job=1, flow=flow.pk, generation=1, state="running", reason="", started_at=0, as_of=0,
        partitions=(part,),
    )  # fmt: skip
    fold(flow=flow, status=status, now=timezone.now())
    return Gap.objects.get(flow=flow, kind="remote_written")


def test_the_page_has_the_offsets_and_nothing_to_decide(viewer: Client, event: Gap) -> None:
    listed = viewer.get(f"/flows/{event.flow_id}/gaps/?q=orders").content.decode()
    assert "remote written" in listed
    assert "wrote 4 records into primary.orders-0" in listed
    page = viewer.get(f"/flows/{event.flow_id}/gaps/{event.pk}/").content.decode()
    for words in ("First written by others", "41", "Last written by others", "50", "41 to 43, 50"):
        assert words in page
    assert "Decide on exactly these numbers" not in page


def test_rest_has_the_same_numbers(viewer: Client, event: Gap) -> None:
    rows = viewer.get(f"/api/v1/flows/{event.flow_id}/gaps/?kind=remote_written").json()
    (row,) = rows["results"]
    assert (row["kind"], row["state"], row["count"]) == ("remote_written", "closed", 4)
    assert (row["remote_first"], row["remote_last"], row["now"]) == (41, 50, "T1")
    assert (row["first_lost"], row["last_lost"]) == (None, None)
    refused = viewer.post(
        f"/api/v1/flows/{event.flow_id}/gaps/{event.pk}/decide/",
        {"choice": "accept", "reason": "x"},
        content_type="application/json",
    )
    assert refused.status_code == 403

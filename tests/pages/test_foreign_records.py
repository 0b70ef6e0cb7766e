"""Foreign records in a remote topic: on the gaps tab and over REST."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.gaps.foreign_records import ForeignRange
from mirrors.domain.runners.job_files import JobStatus, PartitionStatus
from mirrors.models import Flow, Gap
from mirrors.services.gaps.foreign_records import find_ongoing, store_foreign_records
from monitoring.alerts.facts import flow_facts
from monitoring.domain.alerts.conditions import read_flow
from monitoring.domain.alerts.rules import Condition
from monitoring.prometheus.metrics import scrape
from tests.pages import world


@pytest.fixture
def event(db: None) -> Gap:
    flow: Flow = world.busy()
    part = PartitionStatus(
        topic="orders", partition=0, remote_topic="primary.orders", state="in_sync", reason="",
        position=9, source_end=9, source_stable_end=9, time_lag_ms=0, lane="raw", as_of=0,
        remote_topic_id="T1", strangers=(ForeignRange(41, 43, 3), ForeignRange(50, 50, 1)),
    )  # fmt: skip
    status = JobStatus(
        job=1, flow=flow.pk, generation=1, state="running", reason="", started_at=0, as_of=0,
        partitions=(part,),
    )  # fmt: skip
    store_foreign_records(flow=flow, status=status, now=timezone.now())
    return Gap.objects.get(flow=flow, kind="remote_written")


def test_the_page_has_the_offsets_and_nothing_to_decide(viewer: Client, event: Gap) -> None:
    listed = viewer.get(f"/flows/{event.flow_id}/gaps/?q=orders").content.decode()
    assert "remote written" in listed
    assert "wrote 4 records into primary.orders-0" in listed
    page = viewer.get(f"/flows/{event.flow_id}/gaps/{event.pk}/").content.decode()
    for words in ("First foreign record", "41", "Last foreign record", "50", "41 to 43, 50"):
        assert words in page
    assert "Decide on exactly these numbers" not in page


def test_while_they_go_on_the_flow_says_so_the_rule_fires_and_the_metric_counts(
    viewer: Client, event: Gap
) -> None:
    flow, now = event.flow, timezone.now()
    writes = find_ongoing(now=now)[flow.pk]
    assert (writes.records, writes.partitions, writes.place) == (4, 1, "primary.orders-0")
    assert "Another producer writes into primary.orders-0 on backup: 4 records since" in (
        writes.sentence("backup")
    )
    facts = {row.pk: known for row, known in flow_facts(now)}[flow.pk]
    reading = read_flow(Condition(kind="foreign_writes"), facts, now)
    assert (reading.holds, reading.value) == (True, 4)
    assert "primary.orders-0" in reading.sentence
    assert 'understudy_flow_foreign_records{flow="primary->backup"' in _scraped(now)
    assert _scraped(now).count("foreign_records{") == Flow.objects.count()
    assert viewer.get("/alerts/runbooks/foreign_writes/").status_code == 200
    # Five minutes without one, and it is over.
    later = now + timedelta(minutes=5, seconds=1)
    assert find_ongoing(now=later, flow=flow) == {}
    assert find_ongoing(now=now, flow=flow)[flow.pk] == writes


def test_records_in_several_partitions_are_counted_together(event: Gap) -> None:
    flow = event.flow
    seen = timezone.now()
    row = Gap.objects.get(pk=event.pk)
    row.pk, row.partition, row.count, row.seen_at = None, 1, 10, seen
    row.save()
    writes = find_ongoing(now=seen, flow=flow)[flow.pk]
    assert (writes.records, writes.partitions) == (14, 2)
    assert "into 2 remote partitions on backup: 14 records" in writes.sentence("backup")
    assert "the last at offset 50 of primary.orders-1" in writes.sentence("backup")


def _scraped(now: datetime) -> str:
    return scrape(now=now, partitions=False).decode()


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

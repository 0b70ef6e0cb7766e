"""Dead letters of a flow: their number on pages, over REST, as a metric, and as an alert."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from django.utils import timezone

from mirrors.domain.runners.job_files import PartitionStatus, TopicStatus
from mirrors.domain.transforms.rules import TransformRule, format_rules
from mirrors.models import Flow, FlowPartition
from monitoring.alerts.facts import flow_facts
from monitoring.domain.alerts.conditions import read_flow
from monitoring.domain.alerts.rules import Condition
from tests.pages import world
from tests.pages.conftest import As
from tests.pages.test_duplicates import say

PART = PartitionStatus(
    topic="orders", partition=0, remote_topic="c.orders", state="in_sync", reason="", position=9,
    source_end=9, source_stable_end=9, time_lag_ms=0, lane="repack", as_of=0, dead_letters=3,
)  # fmt: skip
TOPIC = TopicStatus(
    topic="orders", remote_topic="c.orders", state="in_sync", reason="", partitions=2
)
RULE = TransformRule(topics="orders", value="json_drop(value, 'x')", on_error="dead_letter")


@pytest.fixture
def flow(db: None) -> Flow:
    return world.flow(properties={"transforms": format_rules([RULE])})


def test_the_number_is_the_same_everywhere(signed_in: As, flow: Flow) -> None:
    say(flow, PART, dataclasses.replace(PART, partition=1, dead_letters=2), topics=(TOPIC,))
    viewer = signed_in("viewer")
    name = f"dead-letters.{flow.source.alias}"
    page = viewer.get(f"/flows/{flow.pk}/").content.decode()
    assert "Dead letters</dt><dd>5<" in page
    assert f"in {name}, the last" in page
    topics = viewer.get(f"/flows/{flow.pk}/topics/").content.decode()
    assert "records for which it fails go to the dead-letter topic: 5 records so far" in topics
    answer = viewer.get(f"/api/v1/flows/{flow.pk}/").json()
    assert (answer["dead_letters"], answer["dead_letter_topic"]) == (5, name)
    assert answer["transforms"][0]["on_error"] == "dead_letter"
    rows = viewer.get(f"/api/v1/flows/{flow.pk}/partitions/").json()["results"]
    assert [row["dead_letters"] for row in rows] == [3, 2]
    scraped = viewer.get("/metrics").content.decode()
    (line,) = (row for row in scraped.splitlines() if row.startswith("understudy_topic_dead_"))
    assert 'topic="orders"' in line
    assert line.endswith(" 5.0")


def test_a_flow_without_such_rules_does_not_mention_them(signed_in: As, db: None) -> None:
    flow = world.flow()
    say(flow, dataclasses.replace(PART, dead_letters=0), topics=(TOPIC,))
    viewer = signed_in("viewer")
    assert "Dead letters" not in viewer.get(f"/flows/{flow.pk}/").content.decode()
    assert viewer.get(f"/api/v1/flows/{flow.pk}/").json()["dead_letter_topic"] is None


def test_the_alert_fires_for_15_minutes_after_the_last_one(flow: Flow) -> None:
    def holds(minutes: int) -> bool | None:
        now = timezone.now() + timedelta(minutes=minutes)
        (facts,) = (found for one, found in flow_facts(now) if one.pk == flow.pk)
        facts = dataclasses.replace(facts, desired="running", state="running")
        return read_flow(Condition(kind="dead_letters"), facts, now).holds

    say(flow, dataclasses.replace(PART, dead_letters=0))
    assert holds(0) is False
    say(flow, PART, seconds=1)
    assert holds(1) is True
    # A slice that has just begun, and the same number again.
    say(flow, dataclasses.replace(PART, dead_letters=None), seconds=60)
    say(flow, PART, seconds=900)
    assert FlowPartition.objects.get(flow=flow).dead_letters == 3
    assert holds(16) is False

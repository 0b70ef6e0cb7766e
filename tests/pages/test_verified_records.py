"""Up to when records are verified: on a topic's page, in a run's certificate, and as an alert."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mirrors.domain.drills.certificates.tables import tables_of
from mirrors.models import Certificate, Flow, PartitionMap
from mirrors.services.drills.certificates import issuance
from monitoring.alerts.facts import flow_facts
from monitoring.domain.alerts.conditions import read_flow
from monitoring.domain.alerts.rules import Condition, ConditionResult
from tests.mirrors.test_failover_certificates import ended
from tests.pages import world
from tests.pages.conftest import As

NOON = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
DAY_S = 86_400
DAILY = {"compare.schedule": "0 3 * * *"}


@pytest.fixture
def flow(db: None) -> Flow:
    return world.flow(properties=DAILY, desired_state="running", observed_state="running")


def known(flow: Flow, topic: str = "orders", partition: int = 0, **facts: Any) -> PartitionMap:
    """A partition's map, which was first seen ten days before NOON."""
    row = PartitionMap.objects.create(
        flow=flow, topic=topic, partition=partition, generation="g", position=1_200, **facts
    )
    PartitionMap.objects.filter(pk=row.pk).update(known_since=NOON - timedelta(days=10))
    return row


def verified(flow: Flow, *, hours: int, **facts: Any) -> PartitionMap:
    """It was verified this number of hours before NOON."""
    at = NOON - timedelta(hours=hours)
    ends = {"verified_first": 0, "verified_end": 1_200, "compared_end": 1_200}
    return known(flow, verified_at=at, **ends, **facts)


def alert(now: datetime = NOON) -> ConditionResult:
    """The rule: not verified for more than two days."""
    [(_, facts)] = flow_facts(now)
    return read_flow(Condition(kind="unverified", threshold=2 * DAY_S), facts, now)


def test_a_topics_page_says_it_of_the_topic_and_of_each_partition(
    signed_in: As, flow: Flow
) -> None:
    world.topic(flow, partitions=2)
    for partition in range(2):
        world.partition(flow, number=partition)
    verified(flow, hours=3)
    known(flow, partition=1)
    verified(flow, hours=9, topic="other")
    address = f"/flows/{flow.pk}/topics/orders/"
    viewer = signed_in("viewer")
    page = viewer.get(address).content.decode()
    assert "Verified up to 2026-11-28 09:00:00 UTC in 1 of 2 partitions." in page
    assert ">1,200<" in page
    rows = json.loads(b"".join(viewer.get(f"{address}?as=json").streaming_content))
    assert sorted(row["verified_offset"] or 0 for row in rows) == [0, 1_200]


def test_the_alert_counts_the_partition_that_was_verified_the_longest_ago(flow: Flow) -> None:
    verified(flow, hours=1)
    verified(flow, hours=30, partition=1)
    said = alert()
    assert (said.holds, said.clears) == (False, True)
    assert said.sentence == "last verified all of its partitions 1 d 6 h ago"
    later = alert(NOON + timedelta(hours=20))
    assert (later.holds, later.value) == (True, 50 * 3600)


def test_a_partition_that_was_never_verified_counts_from_when_it_was_seen(flow: Flow) -> None:
    verified(flow, hours=1)
    row = known(flow, partition=1)
    said = alert()
    assert said.holds
    assert said.sentence == "has not verified 1 of 2 partitions for 10 d"
    PartitionMap.objects.filter(pk=row.pk).update(known_since=NOON - timedelta(hours=1))
    assert alert().clears
    # Rows of earlier versions: since the flow was created.
    PartitionMap.objects.filter(pk=row.pk).update(known_since=None)
    Flow.objects.update(created_at=NOON - timedelta(days=3))
    assert alert().value == 3 * DAY_S


def test_nothing_to_verify_is_unknown_and_a_flow_without_a_schedule_does_not_alert(
    flow: Flow,
) -> None:
    said = alert()
    assert (said.holds, said.clears) == (None, False)
    verified(flow, hours=100)
    assert alert().holds
    for properties in ({}, {**DAILY, "skip.replicated": "true"}):
        Flow.objects.update(properties=properties)
        assert alert().clears
    Flow.objects.update(properties=DAILY, desired_state="paused")
    assert alert().clears


def test_a_runs_certificate_says_it_of_the_topics_that_it_moved(
    flow: Flow, signing_key: Path
) -> None:
    verified(flow, hours=3)
    verified(flow, hours=9, topic="other")
    ended(flow)
    run = ended(flow, scope={"topics": ["orders"], "groups": []})
    assert issuance.issue_missing(now=NOON) == 2
    whole, scoped = (json.loads(row.text) for row in Certificate.objects.order_by("failover__pk"))
    assert whole["verified"]["sentence"] == "Verified up to 2026-11-28 03:00:00 UTC."
    assert [row["topic"] for row in whole["verified"]["partitions"]] == ["other", "orders"]
    assert scoped["run"]["number"] == run.pk
    assert scoped["verified"]["sentence"] == "Verified up to 2026-11-28 09:00:00 UTC."
    (table,) = (one for one in tables_of(scoped) if one.title == "Records verified")
    assert table.rows[1] == ("orders-0", "offset 1,200, 2026-11-28 09:00:00 UTC")
    del scoped["verified"]
    assert "Records verified" not in [one.title for one in tables_of(scoped)]

"""Replication latency in the lists of flows, topics and partitions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.models import Flow, FlowAccount, FlowTopic
from tests.pages import world

SLOW, FAST = [10, 2_500, 40, 900], [30, 600, 5, 60]


@pytest.fixture
def flow(db: None) -> Flow:
    flow = world.flow()
    for name, latency in (("orders", SLOW), ("idle", None), ("payments", FAST)):
        world.topic(flow, name, latency=latency)
        world.partition(flow, name, latency=latency)
    return flow


def latencies(viewer: APIClient, path: str, ordering: str) -> list[Any]:
    rows = viewer.get(f"/api/v1/{path}", {"ordering": ordering}).json()["results"]
    return [row["latency"] and row["latency"]["max_ms"] for row in rows]


@pytest.mark.parametrize("part", ["topics", "partitions"])
def test_lists_have_the_latency_and_sort_by_the_highest(
    viewer: APIClient, flow: Flow, part: str
) -> None:
    path = f"flows/{flow.pk}/{part}/"
    assert latencies(viewer, path, "-latency") == [900, 60, None]
    assert latencies(viewer, path, "latency") == [60, 900, None]


def test_a_flow_has_that_of_all_its_topics(viewer: APIClient, flow: Flow) -> None:
    world.flow()
    [row, other] = viewer.get("/api/v1/flows/?ordering=-latency").json()["results"]
    assert row["latency"] == {
        "records": 40, "total_ms": 3_100, "mean_ms": 78, "min_ms": 5, "max_ms": 900,
    }  # fmt: skip
    assert other["latency"] is None


def test_old_figures_have_no_latency(viewer: APIClient, flow: Flow) -> None:
    old = timezone.now() - timedelta(minutes=1)
    FlowTopic.objects.update(as_of=old)
    FlowAccount.objects.update(as_of=old)
    assert latencies(viewer, f"flows/{flow.pk}/topics/", "topic") == [None] * 3
    assert viewer.get(f"/api/v1/flows/{flow.pk}/").json()["latency"] is None

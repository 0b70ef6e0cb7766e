"""The configs of a topic side by side: requested, read by a worker, shown with their age."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.models import Cluster, Flow, GroupOffset, TopicConfigs
from mirrors.services.topics import readings
from tests.pages import world
from tests.pages.conftest import As


@pytest.fixture
def flow(pair: tuple[Cluster, Cluster]) -> Flow:
    flow = world.flow(*pair)
    world.topic(flow, offset_lag=40, time_lag_ms=61_000)
    return flow


def address(flow: Flow) -> str:
    return f"/flows/{flow.pk}/topics/orders/"


def test_a_reading_is_requested_and_keeps_the_last_answer(signed_in: As, flow: Flow) -> None:
    operator = signed_in("operator")
    assert "Not read yet." in operator.get(address(flow)).content.decode()
    world.topic_configs(flow)
    page = operator.get(address(flow)).content.decode()
    assert page.index("retention.ms") < page.index("flush.ms")
    assert "1 equal default<" in page
    answer = operator.post(f"{address(flow)}configs/")
    assert answer["Location"] == f"{address(flow)}#configs-title"
    page = operator.get(address(flow)).content.decode()
    assert "A worker reads both clusters" in page
    assert "retention.ms" in page
    TopicConfigs.objects.update(requested_at=timezone.now() - timedelta(seconds=31))
    assert "No worker answered" in operator.get(address(flow)).content.decode()
    assert signed_in("viewer").post(f"{address(flow)}configs/").status_code == 403


def test_a_cluster_that_cannot_be_read_leaves_its_side_unknown(signed_in: As, flow: Flow) -> None:
    Cluster.objects.update(bootstrap_servers="127.0.0.1:9")
    operator = signed_in("operator")
    operator.post(f"{address(flow)}configs/")
    readings.run_configs(reading_id=TopicConfigs.objects.get().pk, deadline_s=1)
    reading = TopicConfigs.objects.get()
    assert "primary" in reading.error
    assert "backup" in reading.error
    assert reading.rows == []
    found = operator.get(f"/api/v1/flows/{flow.pk}/topics/orders/").json()["configs"]
    assert (found["state"], found["rows"]) == ("failed", [])


def test_rest_has_one_topic_with_what_it_owes(signed_in: As, flow: Flow) -> None:
    viewer = signed_in("viewer")
    GroupOffset.objects.create(
        flow=flow, group="billing", topic="orders", partition=0, as_of=timezone.now()
    )
    world.gap(flow)
    for name in (str(flow.pk), "primary->backup"):
        found = viewer.get(f"/api/v1/flows/{name}/topics/orders/").json()
        assert (found["owed"]["records"], found["owed"]["certainty"]) == (40, "at_most")
        assert (found["states"], found["open_gaps"]) == ({"behind": 3}, 1)
        assert (found["groups"], found["configs"]) == (["billing"], None)
    assert found["latency"] is None
    flow.topics.update(latency=[10, 2_500, 40, 900])
    found = viewer.get(f"/api/v1/flows/{flow.pk}/topics/orders/").json()
    assert found["latency"] == {
        "records": 10, "total_ms": 2_500, "mean_ms": 250, "min_ms": 40, "max_ms": 900
    }  # fmt: skip
    assert "<small>40 to 900 ms</small>" in viewer.get(address(flow)).content.decode()
    world.owes(flow, "orders", offset_lag=None)
    found = viewer.get(f"/api/v1/flows/{flow.pk}/topics/orders/").json()
    assert (found["owed"]["records"], found["owed"]["certainty"]) == (None, "unknown")
    assert viewer.get(f"/api/v1/flows/{flow.pk}/topics/nosuch/").status_code == 404
    assert viewer.get(f"/api/v1/flows/{flow.pk}/topics/a%2Fb/").status_code == 404


def test_rest_requests_a_reading(client: Client, signed_in: As, flow: Flow) -> None:
    path = f"/api/v1/flows/{flow.pk}/topics/orders/configs/"
    answer = signed_in("operator").post(path)
    assert (answer.status_code, answer.json()["state"]) == (202, "requested")
    assert signed_in("viewer").post(path).status_code == 403


def test_a_file_has_every_config(viewer: Client, flow: Flow) -> None:
    world.topic_configs(flow)
    answer = viewer.get(f"{address(flow)}?as=csv&of=configs")
    lines = b"".join(answer).decode().splitlines()  # type: ignore[arg-type]
    assert lines[1].startswith("retention.ms,5,7,differs")
    assert len(lines) == 3

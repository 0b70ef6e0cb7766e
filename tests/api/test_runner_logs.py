"""A runner's log and its stopped partitions, over REST."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.models import Flow, Runner, RunnerLog
from tests.pages import world


def test_the_last_lines_of_a_runner_are_read_by_operators_alone(
    viewer: APIClient, operator: APIClient, flow: dict[str, Any]
) -> None:
    runner = Runner.objects.get(name=flow["runner"])
    addresses = (f"/api/v1/runners/{runner.name}/log/", f"/api/v1/flows/{flow['id']}/log/")
    assert [viewer.get(one).status_code for one in addresses] == [403, 403]
    assert operator.get(addresses[0]).json() == {"written_at": None, "lines": []}
    head = "2026-11-22 02:33:24,100 INFO spark_runner [MainThread]: "
    lines = [f"{head}Ready: 256 slots", f"{head}Flow {flow['id']} (primary->backup): running."]
    RunnerLog.objects.create(runner=runner, lines=lines, mark="m", written_at=timezone.now())
    assert operator.get(addresses[0]).json()["lines"] == lines
    assert operator.get(addresses[1]).json()["lines"] == lines[1:]
    assert operator.get("/api/v1/flows/999/log/").status_code == 404


def test_a_flow_says_how_many_records_wait_behind_partitions_that_stopped_alone(
    viewer: APIClient, flow: dict[str, Any]
) -> None:
    row = Flow.objects.get(pk=flow["id"])
    world.partition(row, "orders", 0, state="faulted", offset_lag=40)
    world.partition(row, "orders", 1, state="gap", offset_lag=2)
    world.partition(row, "orders", 2, state="lagging", offset_lag=900)
    found = viewer.get(f"/api/v1/flows/{row.pk}/").json()
    assert (found["stopped_partitions"], found["waiting_records"]) == (2, 42)
    [listed] = viewer.get("/api/v1/flows/").json()["results"]
    assert (listed["stopped_partitions"], listed["waiting_records"]) == (2, 42)
    row.partitions.filter(partition=1).update(offset_lag=None)
    assert viewer.get(f"/api/v1/flows/{row.pk}/").json()["waiting_records"] is None

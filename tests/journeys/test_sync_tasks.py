"""Sync tasks of a flow with real beat, workers, runner and brokers."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from controlplane.demo.stack import DemoStack
from mirrors.domain.internal_topics.records import Heartbeat
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import read_to_end

SLOW_S = 5_000


@pytest.fixture(scope="module")
def get(stage: DemoStack) -> Callable[[str], Any]:
    def answer(path: str) -> Any:
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{stage.url}/api/v1/{path}",
            headers={"Authorization": f"Token {stage.facts['token']}"},
        )
        with urllib.request.urlopen(request, timeout=20) as reply:  # noqa: S310
            return json.load(reply)

    return answer


@pytest.fixture(scope="module")
def flow(stage: DemoStack) -> dict[str, Any]:
    return next(row for row in stage.progress.flows() if row["name"] == "primary->backup")


def test_a_heartbeat_crosses_and_its_latency_is_told(
    stage: DemoStack, get: Callable[[str], Any], flow: dict[str, Any], until: Callable[..., float]
) -> None:
    path = f"flows/{flow['id']}/heartbeat/"
    until(lambda: (get(path)["latency_ms"] or SLOW_S) < SLOW_S, 90, "a heartbeat arrives in time")
    told = get(path)
    assert (told["place"], told["error"]) == ("source", "")
    assert told["latency_ms"] >= 0
    with Admin(ClusterSpec(alias="b", bootstrap_servers=stage.clusters["backup"])) as admin:
        records = read_to_end(admin, "primary.heartbeats")
    assert Heartbeat("primary", "backup", 0).key in {record.key for record in records}


def test_duties_are_done_by_beat_and_say_what_they_did(
    get: Callable[[str], Any], flow: dict[str, Any], until: Callable[..., float]
) -> None:
    def done() -> set[str]:
        rows = get(f"flows/{flow['id']}/duties/")
        return {row["duty"] for row in rows if row["state"] == "succeeded"}

    until(lambda: {"heartbeats", "topic configs", "plan"} <= done(), 90, "duties are done")
    assert get(f"flows/{flow['id']}/plan/")["as_of"] is not None

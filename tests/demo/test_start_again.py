"""The demo is stopped while its flows are in every kind of state, and started again."""

from __future__ import annotations

import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from controlplane.demo.console import Console
from controlplane.demo.stack import DemoStack
from controlplane.demo.workspace import Workspace
from mirrors.rest_client import RestClient
from tests.demo_stage import on_stage

pytestmark = pytest.mark.timeout(900)


def eventually(holds: Callable[[], object], seconds: float = 90) -> bool:
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.5)
    return bool(holds())


class Said:
    """A stage that keeps what its console says."""

    def __init__(self) -> None:
        self.text = StringIO()

    def __call__(self, workspace: Workspace, console: Console) -> DemoStack:
        console._stream = self.text
        return DemoStack(workspace, console)


def api(stage: DemoStack) -> RestClient:
    return RestClient(stage.url, stage.facts["token"], program="understudy-demo")


def flows(stage: DemoStack) -> dict[str, dict[str, Any]]:
    return {flow["name"]: flow for flow in api(stage).rows("flows/")}


def recreate(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.delete_topics([topic])[topic].result(30)

    def create() -> bool:
        if topic not in admin.list_topics(timeout=10).topics:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].exception(30)
        return topic in admin.list_topics(timeout=10).topics

    assert eventually(create, 30)


def test_the_demo_starts_where_it_was_and_says_what_is_degraded(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    with on_stage(directory, DemoStack) as stage:
        # `invoices` has two partitions; the recreated one has fewer, and no decision is made.
        recreate(stage.clusters["primary"], "invoices")
        assert eventually(lambda: flows(stage)["primary->backup"]["observed_state"] == "degraded")
        reason = flows(stage)["primary->backup"]["reason"]
        back = flows(stage)["backup->primary"]["id"]
        api(stage).post(f"flows/{back}/pause/", {})
        assert eventually(lambda: flows(stage)["backup->primary"]["observed_state"] == "paused")
        # A simulation that is under way when everything stops.
        flow = flows(stage)["primary->backup"]["id"]
        api(stage).post("failovers/", {"flow": flow, "kind": "simulation"})
    said = Said()
    began = time.monotonic()
    with on_stage(directory, said) as stage:
        assert time.monotonic() - began < 120
        assert flows(stage)["primary->backup"]["observed_state"] == "degraded"
        assert flows(stage)["backup->primary"]["observed_state"] == "paused"
        assert "As it was left: primary->backup is degraded" in said.text.getvalue(), reason
        assert "As it was left: backup->primary is paused" in said.text.getvalue()
        api(stage).post(f"flows/{back}/stop/", {})
        assert eventually(lambda: flows(stage)["backup->primary"]["observed_state"] == "stopped")
    said = Said()
    with on_stage(directory, said):
        assert "As it was left: backup->primary is stopped" in said.text.getvalue()

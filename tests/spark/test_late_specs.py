"""A spec that comes while the thread of its flow is on its way out; without Spark and Kafka."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirrors import launcher
from mirrors.domain.jobs import JobSpec
from mirrors.domain.specs import ClusterSpec
from spark_runner.control_server import ControlServer
from spark_runner.flow_report import FlowReport
from spark_runner.host import Host
from spark_runner.office import Office
from spark_runner.runner import Reporter, Runner
from spark_runner.slots import Slots
from spark_runner.turns import Turns
from tests.spark.lab import wait_for

FLOW = 7


def job(number: int) -> JobSpec:
    """Paused: then nobody asks Kafka."""
    ends = [ClusterSpec(alias=alias, bootstrap_servers="127.0.0.1:9") for alias in ("a", "b")]
    return JobSpec(
        job=number, flow=FLOW, name="a->b", generation=1, desired="paused", source=ends[0],
        target=ends[1], properties={},
    )  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Of a runner that polls; Spark itself is not there."""
    (tmp_path / launcher.FLOWS_DIR).mkdir()
    jobs: Any = SimpleNamespace(is_alive=True, turns=Turns(), launch=None)
    control = ControlServer("127.0.0.1", "127.0.0.1")
    host = Host(tmp_path, control, jobs, Slots(lambda: 4), "raw")
    stopping = threading.Event()
    runner = Runner(host, Reporter(tmp_path, "lab", "local[4]"), stopping)
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    yield tmp_path
    stopping.set()
    thread.join(20)
    control.close()


def state(directory: Path) -> tuple[int, str]:
    said = launcher.read_status(directory, FLOW)
    return (said.job, said.state) if said else (0, "")


def test_it_is_taken_up_as_soon_as_the_thread_is_gone(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaves, defects = threading.Event(), [RuntimeError("a defect")]
    real = FlowReport.is_due

    def is_due(report: FlowReport, *args: Any, **words: Any) -> bool:
        if state(directory) == (1, "paused") and defects:
            raise defects.pop()
        return real(report, *args, **words)

    # An errand that waits for Kafka keeps the thread for up to a minute.
    monkeypatch.setattr(Office, "join", lambda _, seconds: leaves.wait(seconds))
    monkeypatch.setattr(FlowReport, "is_due", is_due)
    launcher.write_spec(directory, job(1))
    wait_for(lambda: state(directory) == (1, "failed"), seconds=10)
    # The control plane ends the job and begins the next at once.
    launcher.write_spec(directory, job(2))
    threading.Event().wait(1.0)
    assert state(directory) == (1, "failed"), "the thread is still there"
    leaves.set()
    wait_for(lambda: state(directory) == (2, "paused"), seconds=10)

"""A runner in this process, without Spark; without Kafka as long as its flows are paused."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mirrors import launcher
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec
from spark_runner.flow.host_lease import LeaseWatch
from spark_runner.flow.runner_resources import RunnerResources
from spark_runner.ipc.driver_server import ControlServer
from spark_runner.runner import Reporter, Runner
from spark_runner.slices.rotation import SlotRotation
from spark_runner.spark.health import Health
from spark_runner.spark.settings import SparkViews
from spark_runner.spark.slots import Slots

FLOW = 7


def job(number: int) -> JobSpec:
    """Paused: then nobody asks Kafka."""
    ends = [ClusterSpec(alias=alias, bootstrap_servers="127.0.0.1:9") for alias in ("a", "b")]
    return JobSpec(
        job=number, flow=FLOW, name="a->b", generation=1, desired="paused", source=ends[0],
        target=ends[1], properties={},
    )  # fmt: skip


@contextlib.contextmanager
def polling(directory: Path) -> Iterator[RunnerResources]:
    """The runner of that directory, until the block ends."""
    (directory / launcher.FLOWS_DIR).mkdir()
    jobs: Any = SimpleNamespace(is_alive=True, rotation=SlotRotation(), launch=None, session=None)
    control = ControlServer("127.0.0.1", "127.0.0.1")
    host = RunnerResources(directory, control, jobs, Slots(lambda: 4), "raw")
    stopping = threading.Event()
    health: Any = SimpleNamespace(assess=Health, is_forgotten=False)
    lease = LeaseWatch(directory, "lab", stopping)
    runner = Runner(
        host, Reporter(directory, "lab", "local[4]", SparkViews()), stopping, health, lease
    )
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    try:
        yield host
    finally:
        # Also when a test fails: the next one would hear of what this runner cannot write.
        stopping.set()
        thread.join(20)
        control.close()


def state(directory: Path) -> tuple[int, str]:
    said = launcher.read_status(directory, FLOW)
    return (said.job, said.state) if said else (0, "")

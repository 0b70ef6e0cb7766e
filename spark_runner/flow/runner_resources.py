"""What a runner offers to its flows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from spark_runner.ipc.driver_server import ControlServer
from spark_runner.spark.jobs import SparkJobs
from spark_runner.spark.slots import Slots


@dataclasses.dataclass(frozen=True)
class RunnerResources:
    """One per runner. `directory` is where spec files come and status files go."""

    directory: Path
    control: ControlServer
    jobs: SparkJobs
    slots: Slots
    lane: str

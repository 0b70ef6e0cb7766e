"""The resources that a runner shares among its flows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from spark_runner.ipc.driver_server import ControlServer
from spark_runner.spark.jobs import SparkJobs
from spark_runner.spark.slots import Slots


@dataclasses.dataclass(frozen=True)
class RunnerResources:
    """One per runner. Spec files are read from `directory`, status files are written there."""

    directory: Path
    control: ControlServer
    jobs: SparkJobs
    slots: Slots
    lane: str

"""A spec that arrives while the thread of its flow ends; without Spark and Kafka."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from mirrors import launcher
from spark_runner.flow.operations import Operations
from spark_runner.status.file import FlowStatusWriter
from tests.spark.lab import wait_for
from tests.spark.without_spark import job, polling, state


def test_it_is_taken_up_as_soon_as_the_thread_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaves, defects = threading.Event(), [RuntimeError("a defect")]
    real = FlowStatusWriter.is_due

    def is_due(report: FlowStatusWriter, *args: Any, **words: Any) -> bool:
        if state(tmp_path) == (1, "paused") and defects:
            raise defects.pop()
        return real(report, *args, **words)

    # An errand that waits for Kafka keeps the thread for up to a minute.
    monkeypatch.setattr(Operations, "join", lambda _, seconds: leaves.wait(seconds))
    monkeypatch.setattr(FlowStatusWriter, "is_due", is_due)
    with polling(tmp_path):
        launcher.write_spec(tmp_path, job(1))
        wait_for(lambda: state(tmp_path) == (1, "failed"), seconds=10)
        # The control plane ends the job and begins the next at once.
        launcher.write_spec(tmp_path, job(2))
        threading.Event().wait(1.0)
        assert state(tmp_path) == (1, "failed"), "the thread is still there"
        leaves.set()
        wait_for(lambda: state(tmp_path) == (2, "paused"), seconds=10)

"""When a flow's status file is written: a real file, times as arguments."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mirrors.domain.runners.job_files import JobSpec, JobState, JobStatus
from mirrors.domain.specs import ClusterSpec
from mirrors.launcher import status_path
from spark_runner.status.file import FlowStatusWriter
from spark_runner.status.flow import FlowProgress
from spark_runner.status.job import job_status

RUNNING: tuple[JobState, str] = ("running", "")


def _job() -> JobSpec:
    return JobSpec(
        job=1,
        flow=7,
        name="one->two",
        generation=1,
        desired="running",
        source=ClusterSpec(alias="one", bootstrap_servers="b:9"),
        target=ClusterSpec(alias="two", bootstrap_servers="b:9"),
        properties={},
    )


class _Scene:
    """A flow without partitions: nothing of it moves unless a test says so."""

    def __init__(self, directory: Path) -> None:
        (directory / "flows").mkdir()
        self.job = _job()
        self.board = FlowProgress(self.job, 0)
        self.file = status_path(directory, self.job.flow)
        self._report = FlowStatusWriter(directory)

    def is_due(
        self, verdict: tuple[JobState, str], now: float, *, has_changes: bool = False
    ) -> bool:
        return self._report.is_due(verdict, self.board, now, has_changes=has_changes)

    def tell(self, verdict: tuple[JobState, str], now: float) -> None:
        self._report.write(self.job, job_status(self.board, *verdict, slices=(), now=0), now)

    def read(self) -> JobStatus:
        return JobStatus.from_json(self.file.read_text())


@pytest.fixture
def scene(tmp_path: Path) -> _Scene:
    return _Scene(tmp_path)


def test_the_first_word_and_every_other_one_are_told_at_once(scene: _Scene) -> None:
    assert scene.is_due(RUNNING, 100.0)
    scene.tell(RUNNING, 100.0)
    assert not scene.is_due(RUNNING, 100.01)
    assert scene.is_due(("degraded", "The target does not answer."), 100.01)
    assert scene.is_due(("running", "Held back by its limit."), 100.01)
    assert scene.read().state == "running"


def test_news_wait_a_third_of_a_second_and_a_flow_at_rest_is_told_of_every_five(
    scene: _Scene,
) -> None:
    scene.tell(RUNNING, 100.0)
    assert not scene.is_due(RUNNING, 100.2, has_changes=True)
    assert scene.is_due(RUNNING, 100.31, has_changes=True)
    assert not scene.is_due(RUNNING, 104.9)
    assert scene.is_due(RUNNING, 105.0)


def test_the_log_tells_of_a_change_of_state_and_not_of_every_file(
    scene: _Scene, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="spark_runner.flow"):
        scene.tell(RUNNING, 100.0)
        scene.tell(RUNNING, 101.0)
        scene.tell(("failed", "The password is wrong."), 102.0)
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert told == [
        ("INFO", "Flow 7 (one->two): running. "),
        ("WARNING", "Flow 7 (one->two): failed. The password is wrong."),
    ]
    assert scene.read().reason == "The password is wrong."

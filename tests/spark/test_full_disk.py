"""A runner whose disk is full: it cannot write its status, and continues to replicate."""

from __future__ import annotations

import errno
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrors import launcher
from mirrors.domain.runners.job_files import JobStatus, RunnerStatus
from spark_runner import runner
from spark_runner.status import file
from tests.spark.lab import wait_for
from tests.spark.without_spark import FLOW, job, polling, state


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is set, no thread but the test's own can write a file whole."""
    is_full, real = threading.Event(), tempfile.mkstemp

    def mkstemp(*args: Any, **words: Any) -> tuple[int, str]:
        if is_full.is_set() and threading.current_thread() is not threading.main_thread():
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args, **words)

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    monkeypatch.setattr(file, "QUIET_S", 0.2)
    monkeypatch.setattr(runner, "QUIET_S", 0.2)
    return is_full


def read(look: Callable[[Path], RunnerStatus | None], directory: Path) -> RunnerStatus:
    said = look(directory)
    assert said is not None
    return said


def flow_said(directory: Path) -> JobStatus:
    said = launcher.read_status(directory, FLOW)
    assert said is not None
    return said


def test_flow_and_runner_go_on_and_tell_again_when_there_is_room(
    tmp_path: Path, disk: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="spark_runner"), polling(tmp_path):
        launcher.write_spec(tmp_path, job(1))
        wait_for(lambda: state(tmp_path) == (1, "paused"), seconds=10)
        # A flow may be faster than the first word of its runner.
        wait_for(lambda: launcher.read_runner(tmp_path), seconds=10, what="the runner's file")
        disk.set()
        time.sleep(3)
        full_until = int(time.time() * 1000)
        assert flow_said(tmp_path).as_of < full_until - 1500
        disk.clear()
        wait_for(
            lambda: flow_said(tmp_path).as_of >= full_until, seconds=10, what="the flow's file"
        )
        assert state(tmp_path) == (1, "paused")
        wait_for(
            lambda: read(launcher.read_runner, tmp_path).as_of >= full_until,
            seconds=10,
            what="the runner's file",
        )
        launcher.remove_spec(tmp_path, FLOW)
        wait_for(lambda: state(tmp_path) == (1, "stopped"), seconds=10)
    told = [record.getMessage() for record in caplog.records]
    assert len([words for words in told if "cannot be written" in words]) == 2, told


def test_the_last_word_of_a_flow_waits_for_room_and_nothing_stays_behind(
    tmp_path: Path, disk: threading.Event
) -> None:
    with polling(tmp_path) as host:
        launcher.write_spec(tmp_path, job(1))
        wait_for(lambda: state(tmp_path) == (1, "paused"), seconds=10)
        assert host.slots.hold(FLOW, 2)
        disk.set()
        launcher.remove_spec(tmp_path, FLOW)
        # Nothing is copied any more: other flows may have the slots, room or no room.
        wait_for(lambda: host.slots.used == 0, seconds=5, what="the slots")
        time.sleep(2)
        assert state(tmp_path) == (1, "paused")
        disk.clear()
        wait_for(lambda: state(tmp_path) == (1, "stopped"), seconds=10)
        launcher.write_spec(tmp_path, job(2))
        wait_for(lambda: state(tmp_path) == (2, "paused"), seconds=10)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_defect_that_is_met_again_while_it_is_told_leaves_no_slot_and_no_thread_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with polling(tmp_path) as host:
        others = set(threading.enumerate())
        launcher.write_spec(tmp_path, job(1))
        wait_for(lambda: state(tmp_path) == (1, "paused"), seconds=10)
        assert host.slots.hold(FLOW, 2)
        of_this_flow = set(threading.enumerate()) - others
        names = {f"{kind}-{FLOW}" for kind in ("flow", "calls", "offsets")}
        assert {thread.name for thread in of_this_flow} == names

        def broken(*_: Any) -> JobStatus:
            raise RuntimeError("a defect")

        with monkeypatch.context() as patched:
            patched.setattr("spark_runner.flow.lifecycle.job_status", broken)
            wait_for(lambda: host.slots.used == 0, seconds=10, what="the slots")
        wait_for(
            lambda: not any(thread.is_alive() for thread in of_this_flow),
            seconds=10,
            what="the threads",
        )

"""A started process leaves no zombie, a reused pid is recognized, files are written atomically."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from mirrors import launcher
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec
from tests.spark.lab import wait_for


def spec(flow: int = 7) -> JobSpec:
    return JobSpec(
        job=1,
        flow=flow,
        name="a->b",
        generation=1,
        desired="running",
        source=ClusterSpec(alias="a", bootstrap_servers="x:1"),
        target=ClusterSpec(alias="b", bootstrap_servers="y:1"),
        properties={"topics": ".*"},
    )


def test_a_started_runner_is_not_our_child_and_its_end_is_seen(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "JAVA_HOME": "/nowhere"}
    process = launcher.start_runner(tmp_path / "r", "x", "local[2,4]", environment)
    assert process.pid not in [child.pid for child in psutil.Process().children(recursive=True)]
    wait_for(lambda: not launcher.is_alive(process.pid, process.start_tick), seconds=20)
    assert "Java" in (tmp_path / "r" / launcher.OUTPUT_FILE).read_text()


def test_a_pid_with_another_start_is_not_alive_and_neither_is_a_zombie() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    tick = launcher.start_tick(child.pid)
    assert tick is not None
    assert launcher.is_alive(child.pid, tick)
    assert not launcher.is_alive(child.pid, tick + 1)
    child.kill()
    wait_for(lambda: not launcher.is_alive(child.pid, tick), seconds=5)
    assert Path(f"/proc/{child.pid}").exists()
    child.wait()
    assert launcher.start_tick(child.pid) is None


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    code = "import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    child = subprocess.Popen([sys.executable, "-c", code], **pipes)
    assert child.stdout is not None
    child.stdout.readline()
    process = launcher.RunnerProcess(child.pid, launcher.start_tick(child.pid) or 0)
    assert not launcher.stop_runner(process, deadline_s=0.3)
    assert not launcher.is_alive(process.pid, process.start_tick)
    assert launcher.stop_runner(process)
    child.wait()


def test_a_spec_comes_back_as_it_was_written_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = launcher.write_spec(tmp_path, spec())
    assert launcher.read_spec(tmp_path, 7) == spec()
    assert path.stat().st_mode & 0o777 == 0o600
    launcher.remove_spec(tmp_path, 7)
    launcher.remove_spec(tmp_path, 7)
    assert launcher.read_spec(tmp_path, 7) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 2, "x": 1}', "null"])
def test_a_status_that_cannot_be_read_is_no_status(tmp_path: Path, text: str) -> None:
    path = launcher.status_path(tmp_path, 7)
    path.parent.mkdir()
    assert launcher.read_status(tmp_path, 7) is None
    path.write_text(text)
    assert launcher.read_status(tmp_path, 7) is None
    (tmp_path / launcher.RUNNER_FILE).write_text(text)
    assert launcher.read_runner(tmp_path) is None


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    launcher.write_whole(path, "a" * 100_000)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for letter in "ab":
                launcher.write_whole(path, letter * 100_000)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen = {path.read_text() for _ in range(300)}
    finally:
        stop.set()
        thread.join()
    assert seen <= {"a" * 100_000, "b" * 100_000}
    assert [p.name for p in tmp_path.iterdir()] == ["file"]

"""A child that dies is restarted; a killed owner leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.demo.errors import DemoError
from controlplane.demo.processes.guard import Guard
from controlplane.demo.processes.ownership import ProcessMark
from controlplane.demo.processes.supervisor import (
    LONGEST_WAIT,
    Child,
    Supervisor,
    keep_short,
    wait_before,
)

ROOT = Path(__file__).resolve().parents[2]


def eventually(holds: Callable[[], object], seconds: float = 15.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.05)
    return False


def child(guard: Guard, tmp_path: Path, *command: str) -> Child:
    environment = {**guard.environment, "PATH": os.environ["PATH"]}
    return Child(
        "it", command, environment=environment, log=tmp_path / "it.log", directory=tmp_path
    )


def test_a_killed_child_is_started_again(guard: Guard, tmp_path: Path) -> None:
    said: list[str] = []
    sleeper = child(guard, tmp_path, "sleep", "600")
    sleeper.launch()
    supervisor = Supervisor(said.append)
    supervisor.adopt(sleeper)
    supervisor.start()
    try:
        assert sleeper.process is not None
        first = sleeper.process.pid
        os.kill(first, signal.SIGKILL)
        assert eventually(lambda: sleeper.alive and sleeper.process.pid != first)
        assert "it was ended by SIGKILL; it is restarted" in said[0]
    finally:
        supervisor.stop()
        sleeper.kill()


def test_what_a_dead_child_forked_goes_with_it(guard: Guard, tmp_path: Path) -> None:
    leader = child(guard, tmp_path, "sh", "-c", "sleep 600 & echo $!; wait")
    leader.launch()
    supervisor = Supervisor(lambda _: None)
    supervisor.adopt(leader)
    assert eventually(lambda: leader.log.read_text())
    forked = int(leader.log.read_text())
    assert leader.process is not None
    leader.process.kill()
    leader.process.wait()
    supervisor.tick(time.monotonic())
    assert eventually(lambda: not psutil.pid_exists(forked))


def test_a_child_that_dies_at_once_is_started_less_and_less_often(
    guard: Guard, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    crashing = child(guard, tmp_path, "sh", "-c", f"echo x >> {starts}; exit 3")
    supervisor = Supervisor(lambda _: None)
    crashing.launch()
    supervisor.adopt(crashing)
    clock = time.monotonic()
    for _ in range(240):
        clock += 0.25
        supervisor.tick(clock)
        if crashing.process is not None:
            crashing.process.wait()
    # Half a second, one, two, four, eight, then fifteen, in one minute.
    assert len(starts.read_text().split()) == 8


@given(st.integers(1, 1000))
def test_waits_grow_and_stay_bounded(deaths: int) -> None:
    assert 0 < wait_before(deaths) <= wait_before(deaths + 1) <= LONGEST_WAIT


def test_a_program_that_cannot_be_started_is_named(guard: Guard, tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="it cannot be started"):
        child(guard, tmp_path, "/no/such/program").launch()


def test_a_log_stays_short_and_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("ab") as writer:
        writer.write(b"x" * 5000 + b"end\n")
        writer.flush()
        keep_short(log, limit=1000)
        writer.write(b"more\n")
    assert log.read_bytes() == b"x" * 96 + b"end\n" + b"more\n"


OWNER = """
import pathlib, subprocess, time
from controlplane.demo.processes.ownership import ProcessMark
from controlplane.demo.processes.guard import Guard
guard = Guard(ProcessMark("{mark}", pathlib.Path("{pid_file}")))
guard.watch()
environment = {{**guard.environment, "PATH": "{path}"}}
# A child, one that lost its environment, one in a session of its own as the Spark runner is.
subprocess.Popen(["sleep", "600"], env=environment)
guard.process_mark.note(subprocess.Popen(["sleep", "600"], env={{"PATH": "{path}"}}).pid)
subprocess.run(["sh", "-c", "setsid sleep 601 & exit"], env=environment)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_however_the_owner_ends_nothing_is_left(number: signal.Signals, tmp_path: Path) -> None:
    pid_file = tmp_path / "pids"
    mark = f"test-{os.getpid()}-{number}"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(mark=mark, pid_file=pid_file, path=os.environ["PATH"])],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"ready\n"
    assert eventually(lambda: len(ProcessMark(mark, pid_file).running_processes()) == 3)
    owner.send_signal(number)
    owner.wait(10)
    owner.stdout.close()
    assert eventually(lambda: not ProcessMark(mark, pid_file).running_processes())


def test_a_killed_watcher_is_replaced() -> None:
    with Guard() as guard:
        watcher = guard._watcher
        assert watcher is not None
        watcher.kill()
        watcher.wait()
        guard.watch()
        assert guard._watcher is not watcher

"""The two commands as a person and CI run them, in a directory that does not exist yet."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.demo.processes.ownership import ProcessMark
from mirrors.rest_client import RestClient

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "manage.py", "demo"]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole") / "demo"


class Demo:
    """A demo on a terminal of its own, which somebody has to read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, "--dir", str(directory)],
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        os.set_blocking(self.terminal, False)
        self._said = b""

    @property
    def said(self) -> str:
        with contextlib.suppress(OSError):
            while read := os.read(self.terminal, 1 << 16):
                self._said += read
        return self._said.decode(errors="replace")

    def wait_for(self, holds: Callable[[], object]) -> None:
        until = time.monotonic() + 240
        while not holds():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < until, self.said
            time.sleep(0.2)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


@pytest.fixture
def demo(directory: Path) -> Iterator[Demo]:
    demo = Demo(directory)
    yield demo
    demo.close()


def process_mark(directory: Path) -> ProcessMark:
    state = json.loads((directory / "state.json").read_text())
    return ProcessMark(state["mark"], directory / "children")


def eventually(holds: Callable[[], object], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.2)
    return bool(holds())


def test_the_check_compares_what_crossed_both_ways_and_stops_all(directory: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--check", "--dir", str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Both clusters hold the same records." in done.stdout
    assert "0 differences" in done.stdout
    assert "HTTP Request" not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout
    assert process_mark(directory).running_processes() == []
    assert not (directory / "demo.json").exists()


def test_demo_json_lets_a_program_in_and_ctrl_c_ends_all(demo: Demo, directory: Path) -> None:
    demo.wait_for(lambda: "Ctrl-C stops everything" in demo.said)
    process, said = demo.process, demo.said
    path = directory / "demo.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    facts = json.loads(path.read_text())
    assert set(facts) == {"url", "username", "password", "token", "clusters"}
    assert set(facts["clusters"]) == {"primary", "backup"}
    flows = RestClient(facts["url"], facts["token"], program="understudy-demo").rows("flows/")
    assert {flow["name"]: flow["observed_state"] for flow in flows} == {
        "primary->backup": "running",
        "backup->primary": "running",
    }
    assert facts["url"] in said
    assert facts["password"] in said
    assert "Resident memory of the whole demo:" in said
    second = subprocess.run(
        [*COMMAND, "--dir", str(directory)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert second.returncode == 1
    assert second.stderr.startswith(f"A demo already runs in {directory} (process {process.pid} at")
    # Ctrl-C reaches the whole foreground group; make must not turn it into a failure.
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 0
    assert process_mark(directory).running_processes() == []
    assert not path.exists()


def test_a_killed_demo_leaves_no_process_and_the_next_one_takes_over(
    demo: Demo, directory: Path
) -> None:
    # All of it is there; running flows and notified programs need not be waited for.
    state = directory / "state.json"
    demo.wait_for(
        lambda: (
            demo.said and state.exists() and len(process_mark(directory).running_processes()) > 8
        )
    )
    family = process_mark(directory)
    (directory / "demo.json").touch()
    demo.process.kill()
    demo.process.wait()
    assert eventually(lambda: not family.running_processes(), 15)
    assert eventually(lambda: not (directory / "demo.json").exists(), 5)
    subprocess.run([*COMMAND, "--clean", "--dir", str(directory)], cwd=ROOT, check=True, timeout=60)
    assert not directory.exists()

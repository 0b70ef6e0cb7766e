"""The two commands as a person and CI run them: whole, from a directory that is not there yet."""

from __future__ import annotations

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

from controlplane.demo.api import Api
from controlplane.demo.brand import Brand

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "manage.py", "demo"]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole") / "demo"


@pytest.fixture
def demo(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A demo on a terminal of its own, up and running."""
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "--dir", str(directory)],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    os.set_blocking(terminal, False)
    said = b""
    until = time.monotonic() + 240
    while b"Ctrl-C stops everything" not in said:
        assert process.poll() is None, said.decode(errors="replace")
        assert time.monotonic() < until, said.decode(errors="replace")
        time.sleep(0.2)
        try:
            said += os.read(terminal, 1 << 16)
        except BlockingIOError:
            continue
    process.said = said.decode(errors="replace")  # type: ignore[attr-defined]
    yield process
    process.kill()
    process.wait()
    os.close(terminal)


def brand(directory: Path) -> Brand:
    state = json.loads((directory / "state.json").read_text())
    return Brand(state["mark"], directory / "children")


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
    assert "\x1b" not in done.stdout
    assert brand(directory).living() == []
    assert not (directory / "demo.json").exists()


def test_demo_json_lets_a_program_in_and_ctrl_c_ends_all(
    demo: subprocess.Popen[bytes], directory: Path
) -> None:
    path = directory / "demo.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    facts = json.loads(path.read_text())
    assert set(facts) == {"url", "username", "password", "token", "clusters"}
    assert set(facts["clusters"]) == {"primary", "backup"}
    flows = Api(facts["url"], facts["token"]).rows("flows/")
    assert {flow["name"]: flow["observed_state"] for flow in flows} == {
        "primary->backup": "running",
        "backup->primary": "running",
    }
    said = demo.said  # type: ignore[attr-defined]
    assert facts["url"] in said
    assert facts["password"] in said
    assert "Resident memory of the whole demo:" in said
    second = subprocess.run(
        [*COMMAND, "--dir", str(directory)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert second.returncode == 1
    assert second.stderr.startswith(f"A demo already runs in {directory} (process {demo.pid} at")
    # Ctrl-C reaches the whole foreground group; make must not turn it into a failure.
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(60) == 0
    assert brand(directory).living() == []
    assert not path.exists()


def test_a_killed_demo_leaves_no_process_and_the_next_one_takes_over(
    demo: subprocess.Popen[bytes], directory: Path
) -> None:
    family = brand(directory)
    assert len(family.living()) > 8
    demo.kill()
    demo.wait()
    assert eventually(lambda: not family.living(), 15)
    assert eventually(lambda: not (directory / "demo.json").exists(), 5)
    subprocess.run([*COMMAND, "--clean", "--dir", str(directory)], cwd=ROOT, check=True, timeout=60)
    assert not directory.exists()

"""The runner as a process: exit codes and their sentences, signals, files, nothing secret."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from mirrors import launcher
from spark_runner import runner
from spark_runner.flow.runner_resources import RunnerResources
from spark_runner.spark.settings import SparkViews
from spark_runner.spark.slots import Slots
from tests.spark.lab import Lab, wait_for


def run_runner(directory: Path, env: dict[str, str], **options: str) -> tuple[int, str]:
    """Run it in the foreground until it refuses."""
    arguments = [f"--{name}={value}" for name, value in options.items()]
    done = subprocess.run(
        [sys.executable, "-m", "spark_runner", f"--dir={directory}", "--name=x", *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_second_runner_on_the_same_directory_is_refused(lab: Lab) -> None:
    code, words = run_runner(lab.directory, lab.env)
    assert code == launcher.EXIT_LOCKED
    assert "Another runner uses" in words
    assert "Traceback" not in words
    assert launcher.is_alive(lab.process.pid, lab.process.start_tick)


@pytest.mark.parametrize("java", ["nothing", "old"])
def test_a_missing_or_old_java_is_said_in_one_sentence(tmp_path: Path, java: str) -> None:
    env = {**os.environ, "JAVA_HOME": str(tmp_path / "java")}
    if java == "old":
        binary = tmp_path / "java" / "bin" / "java"
        binary.parent.mkdir(parents=True)
        binary.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
        binary.chmod(0o700)
    code, words = run_runner(tmp_path / "r", env)
    assert code == launcher.EXIT_NO_JAVA
    assert "Install Java 17" in words
    assert "Traceback" not in words


@pytest.mark.parametrize("master", ["sprak://x", "local[x]", "spark://127.0.0.1:{free}"])
def test_a_master_that_is_none_or_does_not_answer_is_said(tmp_path: Path, master: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    code, words = run_runner(tmp_path, dict(os.environ), master=master.format(free=free))
    assert code == launcher.EXIT_BAD_MASTER
    assert "master" in words
    assert "Traceback" not in words


def test_a_lane_that_is_none_is_said(tmp_path: Path) -> None:
    code, words = run_runner(tmp_path / "r", {**os.environ, "UNDERSTUDY_LANE": "rwa"})
    assert code == launcher.EXIT_USAGE
    assert "UNDERSTUDY_LANE is 'rwa'" in words
    assert "Traceback" not in words


def test_a_directory_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, words = run_runner(tmp_path / "file", dict(os.environ))
    assert code == launcher.EXIT_FAILED
    assert "cannot be used" in words
    assert "Traceback" not in words


def test_files_of_a_runner_are_its_owners_alone_and_a_spec_shows_only_references(
    lab: Lab,
) -> None:
    flow = lab.flow()
    flow.start().wait(lambda s: s.state in ("running", "starting"))
    for path in (lab.directory, lab.directory / "flows"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in (lab.directory / "flows").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    flow.stop()


def test_a_secret_reference_that_leads_nowhere_is_said_and_never_shown(lab: Lab) -> None:
    flow = lab.flow()
    flow.job.source.__dict__.update(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="u",
        sasl_password="env:KAFKA_TEST_NO_SUCH_SECRET",
    )
    status = flow.start().wait_state("degraded")
    assert "KAFKA_TEST_NO_SUCH_SECRET" in status.reason
    flow.stop()


def test_a_spec_file_that_is_no_spec_is_logged_and_others_go_on(lab: Lab) -> None:
    path = launcher.spec_path(lab.directory, 999)
    path.write_text("{")
    wait_for(lambda: "Flow 999: its spec file cannot be read" in lab.exit_reason(), seconds=15)
    path.unlink()
    flow = lab.flow().start()
    flow.wait_state("running")
    assert "Traceback" not in lab.exit_reason().split("Flow 999", 1)[1]
    flow.stop()


def test_the_runner_says_how_it_is_every_few_seconds(lab: Lab) -> None:
    flow = lab.flow(tasks_max="2")
    lab.create(flow.topic("t"), 2)
    flow.start().wait_state("running")

    def shown() -> bool:
        status = launcher.read_runner(lab.directory)
        return status is not None and flow.job.flow in status.flows and status.slots_used >= 2

    wait_for(shown, seconds=10)
    status = launcher.read_runner(lab.directory)
    assert status is not None
    assert status.slots == 256
    assert status.state == "ready"
    assert time.time() * 1000 - status.as_of < 6000
    assert (status.rss_bytes or 0) > 100_000_000

    def measured() -> bool:
        status = launcher.read_runner(lab.directory)
        return status is not None and status.memory.get("jvm", 0) > status.memory["driver"] > 0

    wait_for(measured, seconds=60)
    assert "workers" in (launcher.read_runner(lab.directory) or status).memory
    assert f"Flow {flow.job.flow} (" in (lab.directory / "runner.log").read_text()
    assert status.application_id
    assert json.loads((lab.directory / "runner.json").read_text())["pid"] == status.pid
    flow.stop()


def test_memory_is_measured_again_soon_after_slots_were_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, measured = [1_000.0], []

    def memory(_: object, *, has_workers_here: bool) -> dict[str, int]:
        measured.append(clock[0])
        return {"driver": 1, "jvm": 1, "workers": 0}

    monkeypatch.setattr(runner, "memory_by_part", memory)
    monkeypatch.setattr(runner.time, "monotonic", lambda: clock[0])
    reporter = runner.Reporter(tmp_path, "lab", "local[4]", SparkViews())
    slots = Slots(lambda: 4)
    reporter.host = cast(RunnerResources, SimpleNamespace(slots=slots))

    def measurements(seconds: int) -> int:
        measured.clear()
        for _ in range(seconds):
            clock[0] += 1
            reporter.report("ready")
        return len(measured)

    measurements(60)
    assert measurements(100) <= 1
    slots.hold(1, 2)
    # The workers start within seconds.
    assert measurements(30) >= 4
    assert measurements(100) <= 1

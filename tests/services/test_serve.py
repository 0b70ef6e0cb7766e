"""`understudy serve` of a package: it restarts what dies, leaves nothing, refuses bad input."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis

from controlplane import programs
from controlplane.demo.processes.guard import Guard
from controlplane.demo.processes.ports import free_port
from controlplane.demo.processes.valkey import valkey_server
from controlplane.management.commands.serve import (
    Refused,
    check_address,
    check_redis,
    prepare_directory,
)
from tests.services.compose import ROOT

Until = Callable[..., float]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages as a wheel installs them, outside a checkout, with what Python compiled."""
    site = tmp_path_factory.mktemp("site")
    ignored = shutil.ignore_patterns("*.so")
    for package in ("controlplane", "mirrors", "monitoring", "spark_runner"):
        shutil.copytree(ROOT / package, site / package, ignore=ignored)
    resources = site / "controlplane" / "resources"
    shutil.copytree(ROOT / "templates", resources / "templates")
    shutil.copytree(ROOT / "docs" / "runbooks", resources / "docs" / "runbooks")
    return site


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[str]:
    """The address of a Redis that runs."""
    port = free_port()
    command = [valkey_server(), "--port", str(port), "--save", "", "--bind", "127.0.0.1"]
    directory = tmp_path_factory.mktemp("queue")
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=directory, env={**os.environ, **guard.environment}, stdout=log
        )
    try:
        client = redis.Redis(port=port, socket_timeout=5, retry=None)
        for _ in range(600):
            with contextlib.suppress(redis.ConnectionError):
                client.ping()
                break
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()


class Serve:
    """One `understudy serve` and what it starts."""

    def __init__(self, site: Path, directory: Path, guard: Guard, **environment: str) -> None:
        self.state = directory / "state"
        self.port = free_port()
        self.log = directory / "serve.log"
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.environment = {
            **kept,
            **guard.environment,
            "PYTHONPATH": str(site),
            "UNDERSTUDY_HOME": str(self.state),
            **environment,
        }
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *options: str) -> list[str]:
        return [sys.executable, "-m", "controlplane.cli", "serve", *options]

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command("--bind", f"127.0.0.1:{self.port}"),
                cwd=self.directory,
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def refused(self, *options: str) -> str:
        """What it writes when it does not start."""
        done = subprocess.run(
            self.command(*options),
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 2, done.stdout + done.stderr
        return done.stderr.strip()

    def tree(self) -> list[psutil.Process]:
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def program(self, words: str) -> psutil.Process | None:
        """The direct child whose command line holds these words."""
        assert self.process is not None
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):
                if words in " ".join(child.cmdline()) and runs(child):
                    return child
        return None

    def answers(self, path: str = "healthz") -> bool:
        address = f"http://127.0.0.1:{self.port}/{path}"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def said(self) -> str:
        return self.log.read_text(errors="replace")


def runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def serve(site: Path, tmp_path: Path, guard: Guard, queue: str) -> Iterator[Serve]:
    found = Serve(site, tmp_path, guard, REDIS_URL=queue)
    yield found
    if found.process is not None and found.process.poll() is None:
        found.process.terminate()
        found.process.wait(60)


def test_a_program_that_is_killed_comes_back_and_sigterm_leaves_nothing(
    serve: Serve, until: Until
) -> None:
    serve.start()
    until(lambda: serve.answers("readyz"), 240, "it is ready")
    key = serve.state / "secret_key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(key.read_text()) > 50
    for words in ("worker -n reconcile@%h", "gunicorn"):
        kill_and_wait(serve, words, until)
    until(lambda: serve.answers("readyz"), 120, "it is ready again")
    assert "supervision was ended by SIGKILL; it is restarted" in serve.said()
    assert {log.stem for log in (serve.state / "logs").iterdir()} == {
        *("web", "beat"),
        *programs.WORKERS,
    }

    second = serve.refused("--bind", f"127.0.0.1:{free_port()}")
    assert second == f"`understudy serve` already runs in {serve.state}."

    assert serve.process is not None
    tree = serve.tree()
    serve.process.send_signal(signal.SIGTERM)
    assert serve.process.wait(90) == 0, serve.said()
    assert not [one for one in tree if runs(one)]
    assert "Traceback" not in serve.said()


def kill_and_wait(serve: Serve, words: str, until: Until) -> None:
    """kill -9 of one program, until another one has its place."""
    killed = serve.program(words)
    assert killed is not None, words
    forked = killed.children(recursive=True)
    killed.kill()
    until(lambda: serve.program(words) not in (None, killed), 60, f"{words} is back")
    assert not [one for one in forked if runs(one)], "of the killed one remains"


def test_it_starts_again_with_the_same_key_and_all_ends_when_it_is_killed(
    serve: Serve, until: Until
) -> None:
    key = serve.state / "secret_key"
    serve.start()
    until(lambda: serve.answers("readyz"), 240, "it is ready")
    for words in ("worker -n watch@%h", "beat"):
        kill_and_wait(serve, words, until)
    before = key.read_text()
    assert serve.process is not None
    serve.process.send_signal(signal.SIGTERM)
    assert serve.process.wait(90) == 0, serve.said()
    serve.start()
    until(lambda: serve.answers(), 120, "it starts again")
    assert key.read_text() == before

    tree = serve.tree()
    serve.process.kill()
    serve.process.wait()
    until(lambda: not [one for one in tree if runs(one)], 30, "they end with it")


def test_bad_input_gives_one_sentence_and_no_traceback(serve: Serve) -> None:
    cases = [
        (
            {"REDIS_URL": "redis://:a-secret-of-mine@127.0.0.1:1/0"},
            "Redis at 127.0.0.1:1, which REDIS_URL names, does not answer",
        ),
        (
            {"DATABASE_URL": "postgresql://u:a-secret-of-mine@127.0.0.1:1/x"},
            "The database (127.0.0.1) cannot be used:",
        ),
        (
            {"DATABASE_URL": f"sqlite:///{serve.directory}/missing/db.sqlite3"},
            "/missing/db.sqlite3) cannot be used: unable to open database file",
        ),
    ]
    usual = dict(serve.environment)
    for given, sentence in cases:
        serve.environment = {**usual, **given}
        said = serve.refused("--bind", f"127.0.0.1:{serve.port}")
        assert sentence in said
        assert len(said.splitlines()) == 1, said
        assert "a-secret-of-mine" not in said
        assert "Traceback" not in said


def test_a_redis_that_is_not_named_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "")
    with pytest.raises(Refused) as refused:
        check_redis()
    assert refused.value.message.startswith("REDIS_URL is not set.")


def test_a_state_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(Refused) as refused:
        prepare_directory(file)
    assert refused.value.message.startswith(f"Cannot write to {file}:")


def test_a_port_that_another_program_uses_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        here = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Refused) as refused:
            check_address(here)
    assert refused.value.message.startswith(
        f"Cannot listen on {here}: another program uses the port."
    )


@pytest.mark.parametrize(
    ("bind", "sentence"),
    [
        ("192.0.2.7:8000", "Cannot listen on 192.0.2.7:8000: this machine does not have"),
        ("nowhere.invalid:8000", "the host name is not known"),
        ("8000", "--bind 8000 is not HOST:PORT"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_refused(bind: str, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        check_address(bind)
    assert sentence in refused.value.message


def test_the_makefile_the_demo_and_serve_start_the_same_programs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in programs.WORKERS:
        assert f"-m controlplane.cli worker {name}\n" in makefile
    for path in (ROOT / "controlplane").rglob("*.py"):
        if path.name != "programs.py":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r'"-m", "(celery|gunicorn)"', text), path

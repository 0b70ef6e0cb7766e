"""Redis, two workers and beat as real processes on a database of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg
import redis

from controlplane.demo.processes.ports import free_port
from controlplane.demo.processes.valkey import valkey_server
from tests.mirrors.reports import VARIABLE, write_reports

ROOT = Path(__file__).resolve().parents[2]
STANDIN = Path(__file__).parent / "standin"
CELERY = ("-m", "celery", "-A", "controlplane")
QUIET = ("--without-mingle", "--without-gossip", "-l", "INFO")


class Stack:
    """Each part by its name, so that a test can kill one and start it again, as init would."""

    def __init__(self, directory: Path, guard: Mapping[str, str], database: str = "") -> None:
        self.directory = directory
        self.redis_port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        write_reports(directory / "reports.json")
        self.environment = {
            **os.environ,
            **guard,
            "DATABASE_URL": database or f"sqlite:///{directory}/db.sqlite3",
            "REDIS_URL": f"redis://127.0.0.1:{self.redis_port}/0",
            "UNDERSTUDY_RUNNER_ROOT": str(directory / "runners"),
            "UNDERSTUDY_SECRET_KEY": "only-for-tests",
            "UNDERSTUDY_HOST": "here",
            "UNDERSTUDY_DEAF_AFTER_SECONDS": "5",
            "PYTHONPATH": str(ROOT),
            VARIABLE: str(directory / "reports.json"),
        }

    @property
    def redis(self) -> redis.Redis:
        return redis.Redis(port=self.redis_port, socket_timeout=5)

    def commands(self) -> dict[str, list[str]]:
        server = valkey_server()
        python = sys.executable
        return {
            "redis": [server, "--port", str(self.redis_port), "--save", "", "--dir", "."],
            "reconcile": [
                *(python, *CELERY, "worker", "-n", "reconcile@%h", "-Q", "reconcile", "-c", "1"),
                *QUIET,
            ],
            "tasks": [
                *(python, *CELERY, "worker", "-n", "tasks@%h", "-Q", "default,collect", "-c", "1"),
                *QUIET,
            ],
            "beat": [python, *CELERY, "beat", "-l", "INFO"],
        }

    def migrate(self) -> None:
        command = [sys.executable, str(ROOT / "manage.py"), "migrate", "--noinput", "--skip-checks"]
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=120)

    def start(self, *names: str) -> None:
        for name in names or self.commands():
            # From here `python -m spark_runner` is the stand-in.
            where = self.directory if name == "redis" else STANDIN
            with (self.directory / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    self.commands()[name],
                    env=self.environment,
                    cwd=where,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(10)

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)
        for path in (self.directory / "runners").glob("*/runner.json"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(path.read_text().split('"pid": ')[1].split(",")[0]), signal.SIGKILL)

    def ask(self, code: str) -> str:
        """Run a few lines with Django set up on the stack's database; what they print."""
        setup = "import django; django.setup()\nfrom mirrors.models import *\n"
        done = subprocess.run(
            [sys.executable, "-c", setup + code],
            env={**self.environment, "DJANGO_SETTINGS_MODULE": "controlplane.settings"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.strip()

    def read(self, statement: str) -> Any:
        """One value that the database holds; to ask a program costs it a second."""
        url = self.environment["DATABASE_URL"]
        lite = url.startswith("sqlite:///")
        there: Any = sqlite3.connect(url[10:], timeout=20) if lite else psycopg.connect(url)
        with contextlib.closing(there) as database:
            return database.execute(statement).fetchone()[0]

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")


def wait_for(what: Callable[[], Any], *, within: float, why: str) -> Any:
    until = time.monotonic() + within
    while True:
        if found := what():
            return found
        assert time.monotonic() < until, why
        time.sleep(0.2)

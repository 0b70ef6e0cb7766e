"""All services of docker-compose.yml as processes of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil

from controlplane.demo.processes.guard import Guard
from controlplane.demo.processes.ports import free_port
from tests.services import compose
from tests.services.compose import ROOT, Process

# What an engine gives the slowest of them before it kills.
STOP_S = 30.0


class ComposeProcesses:
    """All services, the PostgreSQL that the file takes from elsewhere, and a way to ask the API."""

    def __init__(self, directory: Path, guard: Guard, database: str) -> None:
        self.process_mark = guard.process_mark
        self.kafka = {name: free_port() for name in ("kafka-primary", "kafka-backup")}
        self.redis, self.web = free_port(), free_port()
        self.processes: dict[str, Process] = {}
        for name, service in compose.ours().items():
            here = {**guard.environment, "REDIS_PORT": str(self.redis)}
            here["KAFKA_PORT"] = str(self.kafka.get(name, 0))
            if "DATABASE_URL" in service.get("environment", {}):
                here["DATABASE_URL"] = database
                password = "of-env-UNDERSTUDY_REDIS_PASSWORD"
                here["REDIS_URL"] = f"redis://:{password}@127.0.0.1:{self.redis}/0"
            if "UNDERSTUDY_BIND" in service.get("environment", {}):
                here["UNDERSTUDY_BIND"] = f"127.0.0.1:{self.web}"
            if name == "worker" and not compose.IMAGE_ROOT:
                # What Java keeps between starts may be this machine's.
                here["UNDERSTUDY_CACHE_DIR"] = os.environ.get("UNDERSTUDY_CACHE_DIR", "")
            self.processes[name] = Process(name, directory, here)

    def start(self, *names: str) -> None:
        for name in names:
            self.processes[name].start()

    def is_healthy(self, name: str) -> bool:
        ports = {"9092": str(self.kafka.get(name)), "6379": str(self.redis), "8000": str(self.web)}
        return self.processes[name].is_healthy(ports)

    def manage(self, *arguments: str, line: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.processes["web"].environment,
            input=line,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def api(self, path: str, token: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.web}/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Token {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=15) as answer:  # noqa: S310
            return dict(json.load(answer))

    def celery_worker(self) -> psutil.Process | None:
        """The main process of the service `worker`."""
        popen = self.processes["worker"].popen
        assert popen is not None
        for process in psutil.Process(popen.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                # Between the list and the question the parent may have died.
                parent = process.parent()
                of_make = parent is not None and parent.name() == "make"
                if of_make and "celery" in " ".join(process.cmdline()):
                    return process
        return None

    def stop(self, *names: str) -> None:
        until = time.monotonic() + STOP_S
        trees = [one for name in names for one in self.processes[name].ask_to_stop()]
        for name in names:
            self.processes[name].wait(until)
        assert not psutil.wait_procs(trees, timeout=1)[1]

"""What the demo runs beside Kafka: Redis, web, Celery, beat, traffic; how each is asked."""

from __future__ import annotations

import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from controlplane import programs
from controlplane.demo.errors import DemoError
from controlplane.demo.processes.java import plain_environment
from controlplane.demo.processes.ports import HOST
from controlplane.demo.processes.supervisor import Child
from controlplane.demo.workspace import Workspace
from controlplane.environment import env_secret
from mirrors.installation import CODE, is_checkout


class Services:
    """Builds the children of one demo. Ports and secrets come from its workspace."""

    def __init__(self, workspace: Workspace, *, web_port: int, redis_port: int) -> None:
        self._workspace = workspace
        self.web_port = web_port
        self.redis_port = redis_port
        self.url = f"http://{HOST}:{web_port}"

    @property
    def directory(self) -> Path:
        """Where its programs start. A checkout is found from there; a package from anywhere, and
        nothing may be written beside it."""
        return CODE if is_checkout() else self._workspace.directory

    @property
    def runner_root(self) -> Path:
        return self._workspace.path("runners")

    @property
    def redis_password(self) -> str:
        return self._workspace.secret("redis_password", 32)

    def database_url(self) -> str:
        """What the person set (the value, or a file with it), else a file of the demo's own."""
        return env_secret("DATABASE_URL") or f"sqlite:///{self._workspace.path('db.sqlite3')}"

    def environment(self) -> dict[str, str]:
        """For our own programs: what the person set (a cluster may refer to it), and ours."""
        ours = {
            "DATABASE_URL": self.database_url(),
            "REDIS_URL": f"redis://:{self.redis_password}@{HOST}:{self.redis_port}/0",
            "UNDERSTUDY_SECRET_KEY": self._workspace.secret("secret_key", 48),
            "UNDERSTUDY_RUNNER_ROOT": str(self.runner_root),
            "UNDERSTUDY_SIGNING_KEY_PATH": str(self.runner_root.parent / "signing" / "key.pem"),
            "UNDERSTUDY_COOKIE_PREFIX": f"understudy_{self.web_port}",
            "DJANGO_SETTINGS_MODULE": "controlplane.settings",
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(self._workspace.path("tmp")),
        }
        # One machine is all there is: who tries a webhook listens here too.
        ours["UNDERSTUDY_NOTIFY_ALLOW"] = os.environ.get("UNDERSTUDY_NOTIFY_ALLOW") or "*"
        # A file would win over the value (environment.env_secret), and those are not the demo's.
        theirs = {k: v for k, v in os.environ.items() if k.removesuffix("_FILE") not in ours}
        return {**theirs, **ours}

    def redis(self) -> Child:
        directory = self._workspace.path("redis")
        # Nothing in the queue is worth a disk: beat sends again what was lost.
        where = ("--bind", HOST, "--port", str(self.redis_port))
        command = programs.manage("redis", str(directory), "--volatile", *where)
        ours = {
            "DJANGO_SETTINGS_MODULE": "controlplane.settings",
            "UNDERSTUDY_REDIS_PASSWORD": self.redis_password,
        }
        return self._child("redis", command, plain_environment(ours))

    def web(self) -> Child:
        # One process that is not replaced: a soak run measures whether its memory grows.
        options = ("--graceful-timeout", "3", "--log-level", "warning", "--max-requests", "0")
        command = programs.web(f"{HOST}:{self.web_port}", workers=1, threads=8, options=options)
        return self._child("web", command, self.environment())

    def workers(self, options: tuple[str, ...] = ()) -> list[Child]:
        options = ("--loglevel", "INFO", *options)
        commands = {
            "celery-reconcile": programs.worker("supervision", options=options),
            "celery-tasks": programs.worker("tasks", options=options),
            "celery-watch": programs.worker("watch", concurrency=1, options=options),
            "beat": programs.beat(options=("--loglevel", "WARNING")),
        }
        return [self._child(name, one, self.environment()) for name, one in commands.items()]

    def traffic(self, primary: str, backup: str) -> Child:
        command = [sys.executable, "-m", "controlplane.demo.shop.traffic", primary, backup]
        environment = plain_environment({"PYTHONPATH": os.pathsep.join(sys.path)})
        return self._child("traffic", command, environment)

    def _child(self, name: str, command: list[str], environment: Mapping[str, str]) -> Child:
        log = self._workspace.logs / f"{name}.log"
        return Child(name, command, environment=environment, log=log, directory=self.directory)


def redis_answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            # It demands its password, so it is there.
            return connection.recv(16).startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False


def web_answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=3) as answer:  # noqa: S310 (ours)
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def wait_until(
    child: Child, answers: Callable[[], bool], given_up: Callable[[], bool], deadline: float = 60.0
) -> None:
    """Until `answers`; a child that died first, or the deadline, is reported in one sentence."""
    until = time.monotonic() + deadline
    while not answers():
        if given_up():
            raise DemoError("The start was given up.", code="given_up")
        if not child.alive:
            raise child.why()
        if time.monotonic() > until:
            raise DemoError(
                f"{child.name} did not answer within {deadline:.0f} s; the machine may be too "
                f"busy. Its log: {child.log}",
                code="slow",
            )
        time.sleep(0.1)

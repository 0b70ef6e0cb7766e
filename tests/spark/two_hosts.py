"""Two worker hosts on one PostgreSQL: processes, directories and names of their own.

The second host is in a network namespace where root can make one. Its way to the database and to
the queue is a link that `cut` takes down; its way to the brokers stays.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Producer

from controlplane.demo.processes.ports import free_port
from controlplane.demo.processes.valkey import valkey_server
from mirrors import launcher
from tests.postgres import Postgres

ROOT = Path(__file__).resolve().parents[2]
# How often the writer writes a record to each partition.
_EVERY_S = 0.1
CELERY = (sys.executable, "-m", "celery", "-A", "controlplane")


class Namespace:
    """A network namespace with one link to this one."""

    def __init__(self) -> None:
        number = os.getpid()
        # Sessions of tests run at once.
        subnet = f"10.93.{number % 250}"
        self.inside, self.outside = f"{subnet}.2", f"{subnet}.1"
        self.name, self.link, self.peer = f"us{number}", f"uso{number}", f"usi{number}"
        self._ip("netns", "add", self.name)
        self._ip("link", "add", self.link, "type", "veth", "peer", self.peer, "netns", self.name)
        self._ip("addr", "add", f"{self.outside}/30", "dev", self.link)
        self._ip("link", "set", self.link, "up")
        self._ip("-n", self.name, "addr", "add", f"{self.inside}/30", "dev", self.peer)
        for device in ("lo", self.peer):
            self._ip("-n", self.name, "link", "set", device, "up")

    @classmethod
    @contextlib.contextmanager
    def if_possible(cls) -> Iterator[Namespace | None]:
        try:
            namespace = cls()
        except (OSError, subprocess.SubprocessError):
            yield None
            return
        try:
            yield namespace
        finally:
            namespace._ip("netns", "del", namespace.name)

    def command(self, *words: str) -> list[str]:
        """The command that runs this one in the namespace, as the same process."""
        return ["ip", "netns", "exec", self.name, *words]

    def cut(self) -> None:
        self._ip("link", "set", self.link, "down")

    def mend(self) -> None:
        self._ip("link", "set", self.link, "up")

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


class TwoHosts:
    """PostgreSQL, a queue, beat, and the workers of hosts a and b."""

    def __init__(
        self,
        directory: Path,
        guard: Mapping[str, str],
        server: Postgres,
        namespace: Namespace | None,
        brokers: tuple[str, str],
    ) -> None:
        self.directory, self.server, self.namespace = directory, server, namespace
        self.redis_port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = dict(guard)
        self.run(
            "redis",
            [valkey_server(), "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", ""],
        )
        if namespace is not None:
            ports = [address.rpartition(":")[2] for address in brokers]
            self._forward("to-brokers", namespace.name, *ports)
            ways = [f"{namespace.outside}:{port}={port}" for port in (server.port, self.redis_port)]
            self._forward("to-services", "-", *ways)

    def environment(self, host: str) -> dict[str, str]:
        namespace = self.namespace if host == "b" else None
        address = namespace.outside if namespace else "127.0.0.1"
        return {
            **os.environ,
            **self._guard,
            "DATABASE_URL": self.server.url.replace("127.0.0.1", address),
            "REDIS_URL": f"redis://{address}:{self.redis_port}/0",
            "UNDERSTUDY_RUNNER_ROOT": str(self.runners(host)),
            "UNDERSTUDY_SECRET_KEY": "only-for-tests",
            "UNDERSTUDY_HOST": host,
            "DJANGO_SETTINGS_MODULE": "controlplane.settings",
            "PYTHONPATH": str(ROOT),
        }

    def runners(self, host: str) -> Path:
        return self.directory / f"runners-of-{host}"

    def start_worker(self, host: str) -> None:
        words = [*CELERY, "worker", "-n", f"reconcile@{host}", "-Q", "reconcile", "-c", "1"]
        words += ["--without-mingle", "--without-gossip", "-l", "INFO"]
        if host == "b" and self.namespace is not None:
            words = self.namespace.command(*words)
        self.run(f"worker-{host}", words, self.environment(host))

    def start_beat(self) -> None:
        self.run("beat", [*CELERY, "beat", "-l", "INFO"], self.environment("a"))

    def run(self, name: str, words: list[str], environment: dict[str, str] | None = None) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                words,
                env=environment or {**os.environ, **self._guard},
                cwd=self.directory if name == "redis" else ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _forward(self, name: str, *words: str) -> None:
        self.run(name, [sys.executable, "-m", "tests.spark.port_forwarder", *words])
        until = time.monotonic() + 60
        while "ready" not in self.log(name):
            assert time.monotonic() < until, self.log(name)
            time.sleep(0.05)

    def kill(self, name: str) -> None:
        """The process and all of its group, at once."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def runner_process(self, host: str) -> launcher.RunnerProcess | None:
        """The living runner of that host."""
        status = launcher.read_runner(self.runners(host) / "shared")
        if status is None or not launcher.is_alive(status.pid, status.start_tick):
            return None
        return launcher.RunnerProcess(status.pid, status.start_tick)

    def ask(self, code: str) -> str:
        setup = "import django; django.setup()\nfrom mirrors.models import *\n"
        done = subprocess.run(
            [sys.executable, "-c", setup + code],
            env=self.environment("a"),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.strip()

    def read(self, statement: str) -> Any:
        with contextlib.closing(psycopg.connect(self.server.url)) as database:
            return database.execute(statement).fetchone()

    def log(self, name: str) -> str:
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)
        for host in ("a", "b"):
            if (process := self.runner_process(host)) is not None:
                os.kill(process.pid, signal.SIGKILL)


class Writer(threading.Thread):
    """Writes numbers to all partitions of a topic until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name="writer", daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all"})
        self._topic, self._partitions = topic, partitions
        self._ended = threading.Event()
        self.written = 0

    def run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            for partition in range(self._partitions):
                self._producer.produce(self._topic, str(self.written).encode(), partition=partition)
            self.written += 1
            self._producer.poll(0)

    def stop(self, seconds: float = 30.0) -> None:
        """`seconds` for what the broker has not acknowledged yet."""
        self._ended.set()
        self.join(10)
        assert self._producer.flush(seconds) == 0

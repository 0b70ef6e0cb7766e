"""Measurements of the long run: processes, the age of records, response times of pages."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import threading
import time
import urllib.request
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import psutil
from confluent_kafka import Consumer, TopicPartition

from controlplane.demo.stack import DemoStack
from tests.demo_stage import runner_process
from tests.journeys.demo_client import Person, Rest

SERVICES = ("web", "celery-reconcile", "celery-tasks", "celery-watch", "beat", "redis")
Pair = tuple[float, float]


@dataclasses.dataclass
class Sample:
    """One service with all its descendants; memory is its share of the machine's, in bytes.

    Of a worker's pool the fullest process stands for all: each keeps its clients for a cluster from
    the first task on that it got for it, and who gets one is left to chance for many minutes.
    """

    memory: int = 0
    processes: int = 0
    threads: int = 0
    files: int = 0
    connections: int = 0


def sample(stage: DemoStack) -> dict[str, Sample]:
    """Every service of Understudy at this moment, with the runner and without brokers."""
    return {
        name: _measured(root, is_pool=name.startswith("celery-"))
        for name, root in _roots(stage).items()
    }


def _roots(stage: DemoStack) -> dict[str, psutil.Process]:
    runner = runner_process(stage)
    assert runner is not None, "the runner is gone"
    roots = {"runner": runner}
    for child in stage.supervisor.children:
        if child.name in SERVICES:
            assert child.process is not None
            roots[child.name] = psutil.Process(child.process.pid)
    assert set(roots) == {"runner", *SERVICES}
    return roots


def thread_names(stage: DemoStack) -> Counter[str]:
    """Every thread of every service by its name, as far as the kernel keeps it."""
    found: Counter[str] = Counter()
    for service, root in _roots(stage).items():
        for process in (root, *root.children(recursive=True)):
            for name in Path(f"/proc/{process.pid}/task").glob("*/comm"):
                with contextlib.suppress(OSError):
                    found[f"{service} {name.read_text().strip()}"] += 1
    return found


def open_files(stage: DemoStack) -> Counter[str]:
    """What every service has open: files by path, connections by port, the rest by its kind."""
    found: Counter[str] = Counter()
    for name, root in _roots(stage).items():
        for process in (root, *root.children(recursive=True)):
            for number in Path(f"/proc/{process.pid}/fd").glob("*"):
                with contextlib.suppress(OSError):
                    found[f"{name} {str(number.readlink()).partition(':[')[0]}"] += 1
            for one in process.net_connections("tcp"):
                if one.raddr:
                    found[f"{name} to port {one.raddr.port}"] += 1
    return found


def _measured(root: psutil.Process, *, is_pool: bool) -> Sample:
    found, each = Sample(), []
    for process in (root, *root.children(recursive=True)):
        try:
            memory = process.memory_full_info().pss
            threads, files = process.num_threads(), process.num_fds()
            connections = len(process.net_connections("tcp"))
        except psutil.NoSuchProcess:
            continue
        found.memory += memory
        each.append((threads, files, connections))
        found.processes += 1
    for at, name in enumerate(("threads", "files", "connections")):
        counts = [row[at] for row in each]
        total = sum(counts[:1]) + max(counts[1:], default=0) if is_pool else sum(counts)
        setattr(found, name, total)
    return found


class Series(threading.Thread):
    """What a thread of its own finds out: moments (monotonic, s) and values."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._ending = threading.Event()
        self.seen: list[Pair] = []
        self.error: Exception | None = None

    def end(self) -> None:
        self._ending.set()
        self.join(60)
        assert self.error is None, self.error

    def between(self, start: float, stop: float) -> Pair:
        """Median and 99th percentile."""
        values = [value for at, value in self.seen if start <= at < stop]
        return statistics.median(values), statistics.quantiles(values, n=100)[-1]


class Latency(Series):
    """How old each record of one origin is when a reader of committed ones sees it, in ms."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, key: str) -> None:
        super().__init__(f"latency {topic}")
        self._key = key.encode()
        self._reader = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"soak-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._reader.assign([TopicPartition(topic, at, 0) for at in range(partitions)])

    def run(self) -> None:
        while not self._ending.is_set():
            for message in self._reader.consume(500, 0.1):
                if message.error() is None and message.key() == self._key:
                    age = time.time() * 1000 - int(message.value() or b"")
                    self.seen.append((time.monotonic(), age))
        self._reader.close()


class RequestTimes(Series):
    """Somebody who looks at pages, a program that asks REST, a scraper: how long a round takes, ms.

    `said` counts the reasons that flows gave for their state.
    """

    EVERY_S = 5.0

    def __init__(self, stage: DemoStack, flows: Mapping[str, int]) -> None:
        super().__init__("asking")
        self._stage, self._flows = stage, flows
        self._person, self._rest = Person(stage), Rest(stage)
        self.said: dict[str, int] = defaultdict(int)

    def run(self) -> None:
        try:
            while not self._ending.wait(self.EVERY_S):
                began = time.monotonic()
                self._round()
                self.seen.append((began, (time.monotonic() - began) * 1000))
        except (OSError, ValueError, KeyError) as error:
            self.error = error

    def _round(self) -> None:
        for row in self._rest("flows/")["results"]:
            self.said[row["reason"]] += 1
        for flow in self._flows.values():
            self._rest(f"flows/{flow}/partitions/")
            self._person.read(f"/flows/{flow}/")
        for page in ("/", "/topology/", "/alerts/"):
            self._person.read(page)
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{self._stage.url}/metrics?partitions=1",
            headers={"Authorization": f"Token {self._stage.facts['token']}"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
            assert b"understudy_" in reply.read()

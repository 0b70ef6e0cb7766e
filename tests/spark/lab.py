"""A runner, its flows, and the contents of both clusters: tools of the tests in this folder."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psutil
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from mirrors import launcher
from mirrors.domain.runners.job_files import JobSpec, JobStatus, PartitionStatus, TopicStatus
from mirrors.domain.specs import ClusterSpec
from tests.spark.reading import Record, end_offsets, records

T = TypeVar("T")

_numbers = itertools.count(1)


def unique(prefix: str = "lab") -> str:
    return f"{prefix}{uuid.uuid4().hex[:8]}"


def wait_for(
    look: Callable[[], T], *, seconds: float = 60.0, what: str = "it", pause: float = 0.02
) -> T:
    """The first true answer; fails with the last one when time is up."""
    until = time.monotonic() + seconds
    while not (answer := look()):
        assert time.monotonic() < until, f"{what} did not happen in {seconds} s: {answer!r}"
        time.sleep(pause)
    return answer


def create_topic(admin: AdminClient, new: NewTopic) -> None:
    """Also with a name just deleted: ZooKeeper answers a deletion before it is done."""
    until = time.monotonic() + 20
    while True:
        try:
            admin.create_topics([new])[new.topic].result(20)
            return
        except KafkaException as error:
            is_there = error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
            if not is_there or time.monotonic() > until:
                raise
            time.sleep(0.2)


class Lab:
    """Both clusters and one runner."""

    def __init__(self, source: str, target: str, directory: Path, env: Mapping[str, str]) -> None:
        self.source = source
        self.target = target
        self.directory = directory
        self.env = dict(env)
        self.on_source = AdminClient({"bootstrap.servers": source, "log_level": 0})
        self.on_target = AdminClient({"bootstrap.servers": target, "log_level": 0})

    def start_runner(
        self, master: str = "local[256,4]", seconds: float = 300, **views: Any
    ) -> None:
        """`views`: Spark's UI and event log, as `launcher.start_runner` takes them."""
        process = launcher.start_runner(self.directory, "lab", master, self.env, **views)

        def is_ready() -> bool:
            assert launcher.is_alive(process.pid, process.start_tick), self.exit_reason()
            status = launcher.read_runner(self.directory)
            return status is not None and status.pid == process.pid and status.state == "ready"

        wait_for(is_ready, seconds=seconds, what="the runner's start", pause=0.2)

    def start_if_ended(self, *master: str, **views: Any) -> None:
        """The test before may have killed it; with what `start_runner` takes."""
        if not self._runs():
            self.start_runner(*master, **views)

    def stop_if_it_runs(self) -> None:
        if self._runs():
            self.stop_runner()

    def _runs(self) -> bool:
        status = launcher.read_runner(self.directory)
        return status is not None and launcher.is_alive(status.pid, status.start_tick)

    def stop_runner(self) -> bool:
        return launcher.stop_runner(self.process)

    @property
    def process(self) -> launcher.RunnerProcess:
        status = launcher.read_runner(self.directory)
        assert status is not None
        return launcher.RunnerProcess(status.pid, status.start_tick)

    def exit_reason(self) -> str:
        return "".join(
            path.read_text(encoding="utf-8")
            for name in ("runner.out", "runner.log")
            if (path := self.directory / name).exists()
        )

    def worker_parents(self) -> list[psutil.Process]:
        """The processes that fork Spark's Python workers: children of Java."""
        found = []
        for one in psutil.Process(self.process.pid).children(recursive=True):
            # It may end meanwhile.
            with contextlib.suppress(psutil.Error):
                parent = one.parent()
                is_of_java = parent is not None and parent.name() == "java"
                if is_of_java and "daemon" in " ".join(one.cmdline()):
                    found.append(one)
        return found

    def flow(self, **settings: str) -> Flow:
        """A flow with aliases of its own; `topics` and the like in snake case."""
        name = unique("f")
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        return Flow(
            lab=self,
            name=name,
            job=JobSpec(
                job=next(_numbers),
                flow=next(_numbers) + os.getpid() * 1000,
                name=f"{name}a->{name}b",
                generation=1,
                desired="running",
                source=ClusterSpec(alias=f"{name}a", bootstrap_servers=self.source),
                target=ClusterSpec(alias=f"{name}b", bootstrap_servers=self.target),
                # Other tests write heartbeats on the same clusters.
                properties={"topics": rf"{name}\..*", "heartbeats.replication.enabled": "false"}
                | properties,
            ),
        )

    def create(self, topic: str, partitions: int = 1, **configs: str) -> str:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        create_topic(self.on_source, NewTopic(topic, partitions, 1, config=settings))
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        self.on_source.create_partitions([NewPartitions(topic, partitions)])[topic].result(20)

    def delete(self, topic: str) -> None:
        self.on_source.delete_topics([topic])[topic].result(20)

    def writer(self, **config: Any) -> Producer:
        usual = {"bootstrap.servers": self.source, "log_level": 0, "linger.ms": 5}
        # A batch that is sent again, as the topic was just created, stays before its successors.
        usual["max.in.flight.requests.per.connection"] = 1
        return Producer({**usual, **config})

    def write(self, topic: str, values: Iterable[Any], partition: int = 0, **config: Any) -> None:
        """Values alone, or whole records as dictionaries of `produce`'s arguments."""
        self._write(self.writer(**config), topic, values, partition)

    def write_target(self, topic: str, values: Iterable[Any]) -> None:
        """As another program on the target does."""
        self._write(Producer({"bootstrap.servers": self.target, "log_level": 0}), topic, values, 0)

    def _write(self, producer: Producer, topic: str, values: Iterable[Any], partition: int) -> None:
        for value in values:
            row = value if isinstance(value, dict) else {"value": str(value).encode()}
            while True:
                try:
                    producer.produce(topic, **{"partition": partition, **row})
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        assert producer.flush(60) == 0

    def read(self, topic: str, *, target: bool = False) -> dict[int, list[Record]]:
        return records(self.target if target else self.source, topic)


@dataclasses.dataclass
class Flow:
    """One flow as the control plane would handle it: through files."""

    lab: Lab
    name: str
    job: JobSpec

    @property
    def source_alias(self) -> str:
        return self.job.source.alias

    def topic(self, rest: str) -> str:
        return f"{self.name}.{rest}"

    def remote(self, topic: str) -> str:
        return f"{self.source_alias}.{topic}"

    def start(self) -> Flow:
        launcher.write_spec(self.lab.directory, self.job)
        return self

    def change(self, *, properties: Mapping[str, str] | None = None, **changes: Any) -> None:
        """An edit by a person: a new generation."""
        merged = {**self.job.properties, **(properties or {})}
        self.job = dataclasses.replace(
            self.job, generation=self.job.generation + 1, properties=merged, **changes
        )
        launcher.write_spec(self.lab.directory, self.job)

    def restart(self) -> None:
        self.job = dataclasses.replace(self.job, job=self.job.job + 1_000_000)
        launcher.write_spec(self.lab.directory, self.job)

    def remove(self) -> None:
        launcher.remove_spec(self.lab.directory, self.job.flow)

    def stop(self, seconds: float = 30.0) -> JobStatus:
        self.remove()
        return self.wait_state("stopped", seconds=seconds)

    def status(self) -> JobStatus | None:
        return launcher.read_status(self.lab.directory, self.job.flow)

    def wait(self, look: Callable[[JobStatus], object], *, seconds: float = 60.0) -> JobStatus:
        until = time.monotonic() + seconds
        while True:
            status = self.status()
            if status is not None and status.job == self.job.job and look(status):
                return status
            assert time.monotonic() < until, f"not in {seconds} s: {_brief(status)}"
            time.sleep(0.05)

    def wait_state(self, state: str, *, seconds: float = 60.0) -> JobStatus:
        return self.wait(lambda s: s.state == state, seconds=seconds)

    def wait_copied(
        self, ends: Mapping[tuple[str, int], int], *, seconds: float = 60.0
    ) -> JobStatus:
        """Until every partition's committed position has reached the end given."""
        return self.wait(
            lambda s: all(position(s, *tp) == end for tp, end in ends.items()),
            seconds=seconds,
        )

    def wait_in_sync(self, *topics: str, seconds: float = 60.0) -> JobStatus:
        """Until positions have reached the ends that the source has now."""
        ends = {}
        for topic in topics:
            ends |= end_offsets(self.lab.source, topic)
        return self.wait_copied(ends, seconds=seconds)


def position(status: JobStatus, topic: str, partition: int) -> int | None:
    row = partition_row(status, topic, partition)
    return row.position if row is not None else None


def partition_row(status: JobStatus, topic: str, partition: int = 0) -> PartitionStatus | None:
    found = [r for r in status.partitions if (r.topic, r.partition) == (topic, partition)]
    return found[0] if found else None


def topic_row(status: JobStatus, topic: str) -> TopicStatus | None:
    found = [row for row in status.topics if row.topic == topic]
    return found[0] if found else None


def _brief(status: JobStatus | None) -> str:
    if status is None:
        return "no status"
    rows = [(r.topic, r.partition, r.state, r.position, r.source_end) for r in status.partitions]
    return f"{status.state}: {status.reason} {rows[:8]} {status.slices[:2]}"

"""One tiny cell from end to end: real brokers, the plain loop, live traffic, a verified copy."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.bench.distance.relay import NetworkProfile, Relay
from controlplane.bench.measurement.results import Run
from controlplane.bench.measurement.single_run import Measurement
from controlplane.bench.session import make_system
from controlplane.bench.systems.interface import ReplicationTask, System
from controlplane.bench.systems.plain_loop import PROGRAM, CopyLoop
from controlplane.bench.workload.datasets import Dataset, prepare
from controlplane.bench.workload.record_shapes import Shape
from controlplane.bench.workload.scenarios import Scenario
from controlplane.bench.workload.topics import Topics
from controlplane.demo.processes.guard import Guard

CELL = Scenario(
    name="tiny",
    shape=Shape(record_bytes=200, batch_bytes=10_000),
    partitions=3,
    backlog_mb=4,
    warm_s=0.5,
    window_s=30.0,
    latency_s=2.0,
    idle_s=1.0,
    rate=200.0,
)


@dataclasses.dataclass
class Running:
    """Two clusters that run already, in the place of the benchmark's own brokers."""

    source_topics: Topics
    target_topics: Topics
    pids: tuple[int, int] = (os.getpid(), os.getpid())

    @property
    def source(self) -> str:
        return self.source_topics.bootstrap

    @property
    def target(self) -> str:
        return self.target_topics.bootstrap

    @property
    def relays(self) -> list[Relay]:
        return []

    def addresses(self, line: NetworkProfile | None, *, tls: bool) -> tuple[str, str]:
        assert line is None
        assert not tls
        return self.source, self.target

    def through(
        self, line: NetworkProfile | None, *, tls: bool
    ) -> contextlib.AbstractContextManager[None]:
        assert line is None
        assert not tls
        return contextlib.nullcontext()


@pytest.fixture(scope="module")
def running(primary: str, backup: str) -> Running:
    return Running(Topics(primary), Topics(backup))


@pytest.fixture(scope="module")
def data(running: Running) -> Iterator[Dataset]:
    said: list[str] = []
    stem = f"bench-run-{random.randrange(10**9)}"
    data = prepare(CELL, running.source_topics, stem, said.append)
    assert said[0].startswith("  20,")
    yield data
    running.source_topics.delete([*data.topics, data.live])


def measure(
    system: System, running: Running, data: Dataset, guard: Guard, cell: Scenario = CELL
) -> Run:
    return Measurement(
        cell=cell,
        system=system,
        brokers=running,  # type: ignore[arg-type]
        data=data,
        number=random.randrange(10**9),
        environment={**os.environ, **guard.environment},
    ).run()


def test_the_loop_is_measured_and_its_copy_verified(
    running: Running, data: Dataset, guard: Guard, tmp_path: Path
) -> None:
    system = make_system("loop", tmp_path / "loop", {**os.environ, **guard.environment})
    run = measure(system, running, data, guard)
    assert run.failure == ""
    assert run.digest_ok
    assert run.drained
    assert run.records == data.records
    assert run.delivery == "at_least_once"
    assert 0 < (run.first_record_s or 0) < 60
    assert 0 < (run.p50_ms or 0) <= (run.p99_ms or 0) <= (run.max_ms or 0)
    assert 0 < (run.source_p50_ms or 0) < 10_000
    assert (run.live_s, run.handovers) == (2.0, 0)
    assert (run.idle_s or 0) >= 0.5
    assert not any(f"r{run.number}s0" in name for name in running.target_topics.names())


class Liar(CopyLoop):
    """The loop, but timestamps change: nothing that a count would notice."""

    label = system = "liar"

    def __init__(self, stamp: str, directory: Path) -> None:
        super().__init__(directory, dict(os.environ))
        self._stamp = stamp
        directory.mkdir()

    def start(self, order: ReplicationTask) -> None:
        program = self.directory / "liar.py"
        honest = PROGRAM.read_text()
        program.write_text(honest.replace("message.timestamp()[1]", self._stamp))
        assert program.read_text() != honest
        link = order.links[0]
        where = [order.source, order.target, order.codec, f"{link.source_alias}.", *link.topics]
        self.launch([sys.executable, "-P", str(program), *where])


class Dead(CopyLoop):
    """Says why and ends."""

    label = system = "dead"

    def start(self, order: ReplicationTask) -> None:
        self.launch(["/bin/sh", "-c", "echo 'ERROR not today'; exit 3"])


def test_a_copy_that_differs_has_no_figures(
    running: Running, data: Dataset, guard: Guard, tmp_path: Path
) -> None:
    system = Liar("message.timestamp()[1] & ~1", tmp_path / "liar")
    run = measure(system, running, data, guard, dataclasses.replace(CELL, latency_s=0.0))
    assert run.records == data.records
    # The first record with an odd timestamp, whichever millisecond the data began in.
    assert re.search(r"differs from its source at record [01]\b", run.failure)
    assert not run.digest_ok
    assert (run.cpu_s_per_gb, run.mb_s, run.first_record_s) == (None, None, None)


def test_live_traffic_that_differs_has_no_figures_either(
    running: Running, data: Dataset, guard: Guard, tmp_path: Path
) -> None:
    stamp = "message.timestamp()[1] + message.topic().endswith('-live')"
    run = measure(Liar(stamp, tmp_path / "liar"), running, data, guard)
    assert "-live" in run.failure
    assert "differs from its source at record 0" in run.failure
    assert (run.p50_ms, run.cpu_s_per_gb) == (None, None)


def test_a_system_that_dies_is_a_run_that_says_why(
    running: Running, data: Dataset, guard: Guard, tmp_path: Path
) -> None:
    system = Dead(tmp_path / "dead", {**os.environ, **guard.environment})
    run = measure(system, running, data, guard)
    assert not run.digest_ok
    assert run.cpu_s_per_gb is None
    assert "ended by itself with code 3: ERROR not today" in run.failure

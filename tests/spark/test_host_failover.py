"""A host dies, is cut off from the database, or is drained: another one copies on, no loss."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from controlplane.demo.processes.guard import Guard
from mirrors.domain.runners.host_leases import LEASE_S
from tests.exclusive import VARIABLE
from tests.postgres import Postgres, binaries
from tests.spark.lab import unique, wait_for
from tests.spark.reading import end_offsets, records
from tests.spark.two_hosts import Namespace, TwoHosts, Writer

PARTITIONS = 3
# The lease, the start of a runner, and its first commit; the latter two take processor time, so
# the limit counts only where the machine has some left.
AGAIN_S = 60.0
PATIENCE_S = 240.0
# Each test waits for leases.
pytestmark = pytest.mark.timeout(900)
HELD = """SELECT count(*) FROM mirrors_host
WHERE held_since < now() - interval '31 s' AND renewed_at > now() - interval '10 s'"""
CREATE = """
from django.core.management import call_command
call_command("migrate", verbosity=0)
from mirrors.services import clusters
from mirrors.services.flows import settings
from mirrors.services.runners import settings as runners
from mirrors.domain.specs import ClusterSpec
pair = [clusters.create_cluster(spec=ClusterSpec(alias=alias, bootstrap_servers=address), who="t")
        for alias, address in {pair!r}]
runner = runners.create_runner(
    name="shared", master="local[16,4]", host="a", failover_hosts="a, b", who="t")
print(settings.create_flow(source=pair[0], target=pair[1], runner=runner, who="t", properties={{
    "topics": {topic!r}, "tasks.max": "2", "heartbeats.replication.enabled": "false"}}).pk)
"""


DRAIN = "from mirrors.services.runners import hosts; hosts.drain(name={name!r}, who='t')"
END_DRAIN = "from mirrors.services.runners import hosts; hosts.end_drain(name={name!r}, who='t')"
DRAINED = """
from mirrors.services.runners import hosts
print(next(row.is_drained for row in hosts.with_runners() if row.name == {name!r}))
"""
# The start of a runner, and its first commit.
HANDOVER_S = 45.0


class Scene:
    def __init__(self, hosts: TwoHosts, source: str, target: str) -> None:
        self.hosts, self.source, self.target = hosts, source, target
        self.topic = unique("shared")
        self.alias = unique("s")
        self.remote = f"{self.alias}.{self.topic}"
        self.moves = 0

    def copied(self) -> int:
        return sum(end_offsets(self.target, self.remote).values())

    def host(self) -> str:
        return str(self.hosts.read("SELECT host FROM mirrors_runner")[0])

    def wait_for_host(self, host: str, *, within: float) -> None:
        wait_for(lambda: self.host() == host, seconds=within, what="the move", pause=0.3)
        self.moves += 1

    def drain(self, host: str, other: str) -> None:
        """Until nothing of `host` runs any more, and the other one copies."""
        self.hosts.ask(DRAIN.format(name=host))
        # Each question to the program starts a process; this one goes to the database.
        self.wait_for_host(other, within=PATIENCE_S)
        wait_for(
            lambda: self.hosts.ask(DRAINED.format(name=host)) == "True",
            seconds=PATIENCE_S,
            what="the drain",
            pause=1,
        )
        self.wait_for_copies(time.monotonic(), within=PATIENCE_S)

    def wait_for_copies(self, since: float, *, within: float) -> float:
        """Seconds from `since` until records that are written now are on the target."""
        mark = self.copied()
        wait_for(
            lambda: self.copied() > mark + 30,
            seconds=within - (time.monotonic() - since),
            what="copying",
            pause=0.5,
        )
        return time.monotonic() - since


class Pauses(threading.Thread):
    """Measures the longest time in which no record arrived at the target."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(name="pauses", daemon=True)
        self._scene, self._ended = scene, threading.Event()
        self.longest = 0.0

    def run(self) -> None:
        known, since = self._scene.copied(), time.monotonic()
        while not self._ended.wait(0.2):
            copied, now = self._scene.copied(), time.monotonic()
            self.longest = max(self.longest, now - since)
            if copied > known:
                known, since = copied, now

    def __enter__(self) -> Pauses:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join(30)


class Demand(threading.Thread):
    """Counts the programs that want a processor during a part of a test."""

    def __init__(self) -> None:
        super().__init__(name="demand", daemon=True)
        self._ended = threading.Event()
        self._running: list[int] = []

    def run(self) -> None:
        while not self._ended.wait(0.2):
            # "0.20 0.18 0.12 1/80 11206": one of 80 threads runs or wants to.
            self._running.append(int(Path("/proc/loadavg").read_text().split()[3].split("/")[0]))

    @property
    def is_high(self) -> bool:
        """Whether other sessions of the suite run, or there were two for each processor."""
        beside = VARIABLE in os.environ
        return beside or statistics.mean(self._running or [0]) > 2 * (os.cpu_count() or 1)

    @classmethod
    @contextlib.contextmanager
    def measured(cls) -> Iterator[Demand]:
        demand = cls()
        demand.start()
        try:
            yield demand
        finally:
            demand._ended.set()
            demand.join(30)


@pytest.fixture(scope="module")
def scene(
    tmp_path_factory: pytest.TempPathFactory, guard: Guard, clusters: tuple[str, str]
) -> Iterator[Scene]:
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    server = Postgres(guard.environment)
    with Namespace.if_possible() as namespace:
        try:
            server.start()
            hosts = TwoHosts(
                tmp_path_factory.mktemp("hosts"), guard.environment, server, namespace, clusters
            )
            try:
                yield Scene(hosts, *clusters)
            finally:
                hosts.close()
        finally:
            server.close()


@pytest.fixture(scope="module")
def writer(scene: Scene) -> Iterator[Writer]:
    """A flow that host a copies, host b beside it, and a writer that never pauses."""
    new = NewTopic(scene.topic, PARTITIONS, 1)
    admin = AdminClient({"bootstrap.servers": scene.source, "log_level": 0})
    admin.create_topics([new])[scene.topic].result(20)
    pair = [(scene.alias, scene.source), (unique("t"), scene.target)]
    scene.hosts.ask(CREATE.format(pair=pair, topic=scene.topic))
    scene.hosts.start_worker("a")
    scene.hosts.start_worker("b")
    scene.hosts.start_beat()
    writer = Writer(scene.source, scene.topic, PARTITIONS)
    writer.start()
    began = time.monotonic()
    wait_for(
        lambda: scene.hosts.read("SELECT observed_state FROM mirrors_flow")[0] == "running",
        seconds=240,
        what="the first start",
        pause=0.3,
    )
    scene.wait_for_copies(began, within=300)
    yield writer
    writer.stop()


def wait_until_ready(scene: Scene) -> None:
    """Both hosts hold their leases long enough, and the runner obeys its host's."""
    wait_for(
        lambda: (
            scene.hosts.read(HELD)[0] == 2
            and scene.hosts.read("SELECT is_leased FROM mirrors_runner")[0]
        ),
        seconds=180,
        what="both leases",
        pause=0.5,
    )


def test_a_killed_host_is_replaced_within_a_minute_and_gets_nothing_back(
    scene: Scene, writer: Writer
) -> None:
    wait_until_ready(scene)
    assert scene.host() == "a"
    process = scene.hosts.runner_process("a")
    assert process is not None
    with Demand.measured() as demand:
        killed = time.monotonic()
        scene.hosts.kill("worker-a")
        os.kill(process.pid, signal.SIGKILL)
        scene.wait_for_host("b", within=LEASE_S + 15)
        moved = time.monotonic() - killed
        took = scene.wait_for_copies(killed, within=PATIENCE_S)
    note(f"killed: taken over after {moved:.1f} s, copying again after {took:.1f} s")
    assert took < AGAIN_S or demand.is_high
    scene.hosts.start_worker("a")
    wait_until_ready(scene)
    assert scene.host() == "b"
    assert scene.hosts.runner_process("a") is None


def test_a_host_that_is_cut_off_from_the_database_stops_and_is_replaced_within_a_minute(
    scene: Scene, writer: Writer
) -> None:
    namespace = scene.hosts.namespace
    if namespace is None:
        pytest.skip("no network namespace can be made here")
    wait_until_ready(scene)
    if scene.host() == "a":
        scene.drain("a", "b")
        scene.hosts.ask(END_DRAIN.format(name="a"))
        wait_until_ready(scene)
    assert scene.hosts.runner_process("b") is not None
    with Demand.measured() as demand:
        cut = time.monotonic()
        namespace.cut()
        wait_for(
            lambda: scene.hosts.runner_process("b") is None,
            seconds=LEASE_S,
            what="the end of the runner that was cut off",
            pause=0.2,
        )
        stopped = time.monotonic() - cut
        assert scene.host() == "b"
        scene.wait_for_host("a", within=LEASE_S)
        moved = time.monotonic() - cut
        took = scene.wait_for_copies(cut, within=PATIENCE_S)
    note(f"cut off: stopped after {stopped:.1f} s, moved {moved:.1f} s, copying {took:.1f} s")
    assert took < AGAIN_S or demand.is_high
    namespace.mend()
    wait_until_ready(scene)
    assert scene.host() == "a"
    assert scene.hosts.runner_process("b") is None


def test_an_upgrade_host_by_host_pauses_copying_for_one_handover_at_a_time(
    scene: Scene, writer: Writer
) -> None:
    first = scene.host()
    second = "a" if first == "b" else "b"
    for drained, other in ((first, second), (second, first)):
        wait_until_ready(scene)
        assert scene.host() == drained
        with Pauses(scene) as pauses:
            with Demand.measured() as demand:
                scene.drain(drained, other)
            assert scene.host() == other
            # The host is upgraded: nothing of it runs any more, and then its new worker starts.
            assert scene.hosts.runner_process(drained) is None
            scene.hosts.kill(f"worker-{drained}")
            scene.wait_for_copies(time.monotonic(), within=PATIENCE_S)
            scene.hosts.start_worker(drained)
            wait_until_ready(scene)
            assert scene.host() == other
            scene.hosts.ask(END_DRAIN.format(name=drained))
        note(f"{drained} drained: the longest pause was {pauses.longest:.1f} s")
        assert pauses.longest < HANDOVER_S or demand.is_high
    assert_complete(scene, writer)


def test_at_the_end_the_target_has_every_record_once(scene: Scene, writer: Writer) -> None:
    assert_complete(scene, writer)


def assert_complete(scene: Scene, writer: Writer) -> None:
    """Nothing is written any more, and each record is on the target once."""
    writer.stop()
    expected = {
        part: [str(number).encode() for number in range(writer.written)]
        for part in range(PARTITIONS)
    }
    wait_for(
        lambda: values(scene.target, scene.remote) == expected,
        seconds=60,
        what="the rest of the copies",
        pause=2,
    )
    assert values(scene.source, scene.topic) == expected
    moves = "SELECT count(*) FROM mirrors_transition WHERE subject='runner' AND to_state='moved'"
    assert scene.hosts.read(moves)[0] == scene.moves


def note(text: str) -> None:
    """Shown with `pytest -s`."""
    sys.stderr.write(f"\n{text}\n")


def values(bootstrap: str, topic: str) -> dict[int, list[bytes | None]]:
    return {
        part: [value for _, value, *_ in rows] for part, rows in records(bootstrap, topic).items()
    }  # fmt: skip

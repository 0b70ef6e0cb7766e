"""A standalone cluster of two hosts: one worker is in a network namespace, behind a link.

The executor there reaches the brokers over another path, as in a data center. So an executor that
is cut off from the driver goes on copying until it notices, while its successor has started.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from controlplane.demo.processes.ports import free_port
from mirrors import launcher
from mirrors.domain.runners.job_files import RunnerStatus
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules
from tests.spark.lab import Flow, Lab, wait_for
from tests.spark.standalone import SHARED, StandaloneCluster, standalone_cluster
from tests.spark.test_spark_settings import written
from tests.spark.two_hosts import ROOT, Namespace, Writer

CORES = 4
SOON_S = 30.0
# A Java process starts, on a machine that may be busy.
BACK_S = 300.0
PARTITIONS = 4
RULE = TransformRule(
    topics=".*ruled",
    where="cast(cast(value as string) as int) % 10 >= 3",
    value="concat('v', cast(value as string))",
)


class Wire:
    """What passes the link, both ways."""

    def __init__(self, link: str) -> None:
        self.seen = bytearray()
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.bind((link, 0))
        self._socket.settimeout(0.5)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError, OSError):
                self.seen += self._socket.recv(1 << 16)

    def close(self) -> bytes:
        self._ended.set()
        self._thread.join(5)
        self._socket.close()
        return bytes(self.seen)


@pytest.fixture(scope="module")
def namespace(
    clusters: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Namespace]:
    """Brokers advertise 127.0.0.1, which leads to them in there too."""
    with Namespace.if_possible() as namespace:
        if namespace is None:
            pytest.skip("no network namespace can be made here")
        ports = [address.rpartition(":")[2] for address in clusters]
        command = [sys.executable, "-m", "tests.spark.port_forwarder", namespace.name, *ports]
        log = tmp_path_factory.mktemp("forwarder") / "out"
        with log.open("wb") as out:
            forwarder = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT)
        try:
            wait_for(lambda: "ready" in log.read_text(), seconds=20, what="the forwarder")
            yield namespace
        finally:
            forwarder.kill()
            forwarder.wait(10)


@pytest.fixture(scope="module")
def cluster(
    namespace: Namespace, tmp_path_factory: pytest.TempPathFactory, runner_env: dict[str, str]
) -> Iterator[StandaloneCluster]:
    env = dict(runner_env)
    env.pop("PYTHONPATH", None)
    directory = tmp_path_factory.mktemp("cluster")
    with standalone_cluster(
        directory, env, workers=1, cores=CORES, host=namespace.outside
    ) as cluster:
        cluster.add_worker(namespace)
        yield cluster


@pytest.fixture(scope="module")
def port() -> int:
    """Of the control connection."""
    return free_port()


@pytest.fixture(scope="module")
def lab(
    clusters: tuple[str, str],
    cluster: StandaloneCluster,
    namespace: Namespace,
    port: int,
    tmp_path_factory: pytest.TempPathFactory,
    runner_env: dict[str, str],
) -> Iterator[Lab]:
    text = f"{SHARED}spark.driver.host {namespace.outside}\n"
    env = {
        **runner_env,
        **written(tmp_path_factory.mktemp("conf"), text),
        "SPARK_LOCAL_IP": namespace.outside,
        "UNDERSTUDY_CONTROL_PORT": str(port),
    }
    env.pop("PYTHONPATH", None)
    lab = Lab(*clusters, tmp_path_factory.mktemp("runner"), env)
    lab.start_runner(cluster.master, seconds=300)
    yield lab
    lab.stop_runner()


class Scene:
    """Two flows under load, one with a rule, on the executors of both hosts."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.raw = lab.flow(tasks_max="2")
        self.ruled = lab.flow(tasks_max="2", **{TRANSFORMS: format_rules([RULE])})
        self.flows = [
            (self.raw, lab.create(self.raw.topic("raw"), PARTITIONS)),
            (self.ruled, lab.create(self.ruled.topic("ruled"), PARTITIONS)),
        ]

    @contextlib.contextmanager
    def under_load(self) -> Iterator[None]:
        writers = [Writer(self.lab.source, topic, PARTITIONS) for _, topic in self.flows]
        for writer in writers:
            writer.start()
        try:
            yield
        finally:
            for writer in writers:
                # A broker of a busy machine responds late.
                writer.stop(seconds=BACK_S)

    def all_move(self, seconds: float = 240) -> None:
        """Until each partition has replicated more than what was on its way."""
        for flow, topic in self.flows:
            what = f"positions of all partitions of {topic}"
            mark = wait_for(
                functools.partial(_positions, flow, topic), seconds=seconds, what=what, pause=0.3
            )

            def moved(flow: Flow = flow, topic: str = topic, mark: dict[int, int] = mark) -> bool:
                now = _positions(flow, topic)
                return bool(now) and all(now[part] > at + 200 for part, at in mark.items())

            wait_for(moved, seconds=seconds, what=f"progress: {what}", pause=0.3)

    def check(self) -> None:
        """Every record once and in order, in the flow with the rule as the rule leaves it."""
        for flow, topic in self.flows:
            flow.wait_in_sync(topic, seconds=150)
        lab = self.lab
        (_, raw), (_, ruled) = self.flows
        assert lab.read(self.raw.remote(raw), target=True) == lab.read(raw)
        for part, copies in lab.read(self.ruled.remote(ruled), target=True).items():
            numbers = [int(row[1] or b"") for row in lab.read(ruled)[part]]
            expected = [b"v%d" % number for number in numbers if number % 10 >= 3]
            assert [row[1] for row in copies] == expected
            assert len(expected) > 1000


def _positions(flow: Flow, topic: str) -> dict[int, int]:
    """Empty until each partition has one."""
    status = flow.status()
    rows = status.partitions if status else ()
    found = {
        row.partition: row.position
        for row in rows
        if row.topic == topic and row.position is not None
    }
    return found if len(found) == PARTITIONS else {}


def runner_said(lab: Lab) -> RunnerStatus:
    status = launcher.read_runner(lab.directory)
    assert status is not None
    return status


def slots_become(lab: Lab, slots: int, seconds: float) -> float:
    began = time.monotonic()
    wait_for(lambda: runner_said(lab).slots == slots, seconds=seconds, what=f"{slots} slots")
    return time.monotonic() - began


def processes_in(namespace: Namespace) -> list[psutil.Process]:
    command = ["ip", "netns", "pids", namespace.name]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    return [psutil.Process(int(pid)) for pid in found.stdout.split()]


def connections_to(namespace: Namespace, port: int) -> int:
    """Established connections from the namespace to the control port."""
    command = namespace.command("cat", "/proc/net/tcp", "/proc/net/tcp6")
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    remote = [line.split()[2:4] for line in lines.splitlines() if line.count(":") > 3]
    return sum(state == "01" and int(at.rpartition(":")[2], 16) == port for at, state in remote)


@pytest.mark.timeout(2400)
def test_raw_flows_and_flows_with_rules_survive_the_loss_of_executor_worker_and_link(
    lab: Lab, cluster: StandaloneCluster, namespace: Namespace, port: int
) -> None:
    slots_become(lab, 2 * CORES, BACK_S)
    scene = Scene(lab)
    wire = Wire(namespace.link)
    with scene.under_load():
        for flow, _ in scene.flows:
            flow.start()
        scene.all_move()
        wait_for(lambda: connections_to(namespace, port), what="a task on the other host")

        executors = cluster.executors(worker=-1)
        assert executors
        assert {one.pid for one in executors} <= {one.pid for one in processes_in(namespace)}
        for one in executors:
            one.kill()
        scene.all_move()
        assert slots_become(lab, 2 * CORES, BACK_S) < BACK_S

        cluster.lose_worker()
        assert slots_become(lab, CORES, SOON_S) < SOON_S
        scene.all_move()
        cluster.add_worker(namespace)
        slots_become(lab, 2 * CORES, BACK_S)
        passed = wire.close()

        # The executor goes on for a while: it still reaches the brokers.
        namespace.cut()
        took = slots_become(lab, CORES, SOON_S)
        sys.stderr.write(f"\nan executor that was cut off counted as lost after {took:.1f} s\n")
        scene.all_move()
        namespace.mend()
        slots_become(lab, 2 * CORES, BACK_S)
        scene.all_move()
    scene.check()
    for flow, _ in scene.flows:
        flow.stop()
    assert len(passed) > 100_000
    for word in (b'"hello"', b'"figures"', b"control_token", b"bootstrap_servers", b"slice"):
        assert word not in passed

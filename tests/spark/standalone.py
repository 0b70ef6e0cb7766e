"""A real standalone Spark cluster on this machine: a master and workers, each a Java process."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from controlplane.demo.processes.ports import HOST, free_port
from spark_runner.spark.java import SPARK_HOME, read_option, spark_jars
from tests.spark.lab import wait_for
from tests.spark.local_session import class_data_archive
from tests.spark.two_hosts import Namespace

# What master, workers and runner share.
SHARED = (
    "spark.authenticate true\nspark.authenticate.secret of-this-test-alone\n"
    "spark.network.crypto.enabled true\nspark.network.crypto.authEngineVersion 2\n"
)
_QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def quick_options() -> list[str]:
    """For each Java of such a cluster: it starts with little processor time."""
    archive = class_data_archive()
    return [*_QUICK] if archive is None else [*_QUICK, read_option(archive)]


def quick_executors() -> str:
    """The line of a runner's spark-defaults.conf."""
    return f"spark.executor.extraJavaOptions {' '.join(quick_options())}\n"


class StandaloneCluster:
    """Its master's address, and its processes: the master's first."""

    def __init__(
        self,
        master: str,
        add_worker: Callable[[int, Namespace | None], None],
        add_master: Callable[[int], None],
    ) -> None:
        self.master = master
        self.processes: list[subprocess.Popen[bytes]] = []
        self._add_worker = add_worker
        self._add_master = add_master
        self._workers = 0
        self._masters = 0

    def start_master(self) -> None:
        """At its address; one that is started again remembers no application."""
        self._masters += 1
        self._add_master(self._masters)
        self.processes.insert(0, self.processes.pop())

    def kill_master(self) -> None:
        master = self.processes.pop(0)
        master.kill()
        master.wait(10)

    def add_worker(self, namespace: Namespace | None = None) -> None:
        """The newest one; in a namespace it is another host."""
        self._workers += 1
        self._add_worker(self._workers, namespace)

    def lose_worker(self) -> None:
        """As when its machine dies: the newest worker, its executors, and what these started."""
        process = self.processes.pop()
        worker = psutil.Process(process.pid)
        for member in (worker, *worker.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        process.wait(10)

    def executors(self, worker: int | None = None) -> list[psutil.Process]:
        """Of all workers, or of one: 1 is the oldest, -1 the newest."""
        found = []
        for process in self.processes if worker is None else [self.processes[worker]]:
            for child in psutil.Process(process.pid).children():
                with contextlib.suppress(psutil.Error):
                    if any("ExecutorBackend" in part for part in child.cmdline()):
                        found.append(child)
        return found


def _is_open(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), 0.5):
        return True
    return False


@contextmanager
def standalone_cluster(
    directory: Path,
    env: Mapping[str, str],
    *,
    workers: int = 2,
    cores: int = 8,
    host: str = HOST,
) -> Iterator[StandaloneCluster]:
    """`env` is all that executors find in their environment."""
    port = free_port()
    directory.mkdir(parents=True, exist_ok=True)
    # In no SPARK_CONF_DIR, which would begin the class path of executors: Java uses a class-data
    # archive only with the class path that it was written with.
    settings = directory / "spark-defaults.conf"
    settings.write_text(SHARED)
    environment = {
        **{name: value for name, value in env.items() if name != "SPARK_CONF_DIR"},
        "SPARK_HOME": str(SPARK_HOME),
        # What bin/load-spark-env.sh would set.
        "SPARK_SCALA_VERSION": "2.13",
    }
    address = f"spark://{host}:{port}"
    options = ["-Xmx256m", *quick_options()]
    deploy = "org.apache.spark.deploy"
    web = ("--properties-file", str(settings), "--webui-port", "0", "--host")

    def launch(name: str, here: str, *arguments: str, namespace: Namespace | None = None) -> None:
        home = directory / name
        home.mkdir(parents=True)
        with (home / "out").open("wb") as out:
            command = ["java", *options, "-cp", ":".join(spark_jars()), *arguments]
            if namespace is not None:
                command = namespace.command(*command)
            cluster.processes.append(
                subprocess.Popen(
                    command,
                    cwd=home,
                    env={**environment, "SPARK_LOCAL_IP": here},
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            )

    def add_worker(number: int, namespace: Namespace | None) -> None:
        here = host if namespace is None else namespace.inside
        size = ("--cores", str(cores), "--memory", "1g")
        work = ("--work-dir", str(directory / f"worker-{number}" / "work"))
        launch(
            f"worker-{number}",
            here,
            f"{deploy}.worker.Worker",
            *size,
            *work,
            *web,
            here,
            address,
            namespace=namespace,
        )

    def add_master(number: int) -> None:
        arguments = ("--port", str(port), *web, host)
        launch(f"master-{number}", host, f"{deploy}.master.Master", *arguments)
        wait_for(lambda: _is_open(host, port), seconds=60, what="the Spark master")

    cluster = StandaloneCluster(address, add_worker, add_master)
    try:
        cluster.start_master()
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        for process in reversed(cluster.processes):
            process.kill()
            process.wait(10)

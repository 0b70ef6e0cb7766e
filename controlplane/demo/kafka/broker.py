"""Real Kafka brokers (KRaft) from the published jars: format, start, wait, stop, kill, restart.

Every broker has a plaintext listener on the loopback address for itself and for the checks here;
a caller adds listeners of any protocol beside it and gives the properties that they need.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from controlplane.demo.errors import DemoError
from controlplane.demo.kafka.broker_commands import BROKER, BrokerJava, new_cluster_id
from controlplane.demo.kafka.class_data_archive import archive_options
from controlplane.demo.kafka.jars import BROKER as NEWEST
from controlplane.demo.kafka.jars import JarSet, kafka_jars
from controlplane.demo.kafka.server_properties import (
    LOGGING,
    Listener,
    NodeConfig,
    server_properties,
)
from controlplane.demo.processes.exit_reasons import PortTaken, explain, port_taken, read_tails
from controlplane.demo.processes.java import plain_environment
from controlplane.demo.processes.ports import HOST, free_port, is_free, is_open, load_ports

__all__ = ["KafkaBroker", "Listener", "PortTaken", "new_cluster_id"]

START_DEADLINE = 90.0
STOP_DEADLINE = 20.0
_ATTEMPTS = 4


class KafkaBroker:
    """One broker (and controller) process with its directory: properties, log and data.

    `port` 0 means: the port this directory had last time if it is free, else any free one.
    """

    def __init__(
        self,
        directory: Path,
        *,
        name: str = "kafka",
        port: int = 0,
        properties: Mapping[str, str] | None = None,
        listeners: Sequence[Listener] = (),
        heap: str = "1g",
        jvm: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        cluster_id: str = "",
        node: NodeConfig | None = None,
        leaves_classes: Path | None = None,
        jars: JarSet = NEWEST,
    ) -> None:
        self.directory = directory
        self.name = name
        self.port = port or (node.port if node else 0)
        self.listeners = list(listeners)
        self.process: subprocess.Popen[bytes] | None = None
        self._port_is_wanted = bool(self.port)
        self._controller_port = 0
        self._properties = dict(properties or {})
        self._seat = node
        self._cluster_id = cluster_id or new_cluster_id()
        self._leaves_classes = leaves_classes
        self._jars = jars
        self._java = BrokerJava(
            directory,
            ["-XX:+UseSerialGC", "-Xms64m", f"-Xmx{heap}", *jvm],
            plain_environment(dict(environment or {})),
            jars,
        )

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def bootstrap_of(self, listener: str) -> str:
        return next(
            f"{HOST}:{item.client_port}" for item in self.listeners if item.name == listener
        )

    def port_of(self, listener: str) -> int:
        """The port that the broker itself listens on, which a relay may stand before."""
        return next(item.port for item in self.listeners if item.name == listener)

    @property
    def log(self) -> Path:
        return self.directory / "kafka.log"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, deadline: float = START_DEADLINE) -> KafkaBroker:
        """Launch and wait; a chosen port that was taken meanwhile is chosen again."""
        for attempt in range(_ATTEMPTS):
            try:
                self.launch()
                self.wait(deadline)
                return self
            except PortTaken:
                if self._port_is_wanted or attempt == _ATTEMPTS - 1:
                    raise
                self._forget_ports()
            except BaseException:
                self.kill()
                raise
        raise AssertionError("the last attempt returned or raised")

    def launch(self) -> None:
        """Start the process without waiting for an answer; formats a new directory."""
        if self.alive:
            return
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            classes = self._classes()
            self._choose_ports()
            self._write_files()
            if said := self._java.format(self._cluster_id, () if self._leaves_classes else classes):
                raise self._because(said)
            self.log.unlink(missing_ok=True)
            with self._console.open("wb") as console:
                self.process = subprocess.Popen(
                    self._java.command(BROKER, self._java.settings, options=classes),
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    env=self._java.environment,
                    cwd=self.directory,
                    start_new_session=True,  # Ctrl-C is the caller's to act on, in its order
                )
        except OSError as error:
            raise self._because(str(error)) from error

    def wait(self, deadline: float = START_DEADLINE) -> None:
        """Until the broker answers a metadata request with itself in it."""
        until = time.monotonic() + deadline
        while time.monotonic() < until:
            if not self.alive:
                raise self.why()
            if is_open(self.port) and self._answers():
                return
            time.sleep(0.1)
        raise DemoError(
            f"Kafka {self.name} at {self.bootstrap} did not answer within {deadline:.0f} s. "
            f"The machine may be too busy; {self.log} tells what Kafka was doing.",
            code="kafka_slow",
        )

    def stop(self, deadline: float = STOP_DEADLINE) -> None:
        """As an operator stops it; killed when it does not listen."""
        if self.process is not None and self.alive:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(deadline)
        self.kill()

    def kill(self) -> None:
        """As a crash stops it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def restart(self, deadline: float = START_DEADLINE) -> None:
        """Stop (if it still runs) and start again on the same ports and data."""
        self.stop()
        self.launch()
        self.wait(deadline)

    def why(self) -> DemoError:
        """What its output says of its death."""
        return self._because(read_tails(self.log, self._console))

    @property
    def _title(self) -> str:
        return f"Kafka {self.name}"

    @property
    def _console(self) -> Path:
        return self.directory / "console.log"

    @property
    def _remembered(self) -> Path:
        return self.directory / "ports.json"

    def _choose_ports(self) -> None:
        if self._port_is_wanted and not is_free(self.port):
            raise port_taken(self._title, self.port)
        last = load_ports(self._remembered)
        self.port = self.port or last.get("port") or free_port()
        self._controller_port = last.get("controller") or free_port()
        self.listeners = [
            item if item.port else replace(item, port=free_port()) for item in self.listeners
        ]
        ports = {"port": self.port, "controller": self._controller_port}
        self._remembered.write_text(json.dumps(ports))

    def _forget_ports(self) -> None:
        self.port = 0
        self._remembered.unlink(missing_ok=True)

    def _write_files(self) -> None:
        node = self._seat or NodeConfig.alone(self.port, self._controller_port)
        data = self.directory / "data"
        settings = server_properties(node, self.listeners, data, self._properties)
        path = Path(self._java.settings)
        path.touch(mode=0o600)  # a listener's JAAS line may hold a password
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        (self.directory / "log4j2.properties").write_text(LOGGING.format(path=self.log))

    def _classes(self) -> list[str]:
        if self._leaves_classes is not None:
            return [f"-XX:ArchiveClassesAtExit={self._leaves_classes}"]
        if self._jars is not NEWEST:
            # The archive is of other classes.
            return []
        return archive_options(lambda path: leave_classes(path, self._java.environment))

    def _answers(self) -> bool:
        silent: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.bootstrap,
            "log_level": 0,
            "socket.timeout.ms": 2000,
        }
        try:
            return bool(AdminClient(silent).list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def _because(self, said: str) -> DemoError:
        return explain(said, name=self._title, port=self.port, log=self.log)


def leave_classes(archive: Path, environment: Mapping[str, str]) -> None:
    """Start and stop a broker, so that the JVM writes its class-data archive."""
    with tempfile.TemporaryDirectory(prefix="understudy-classes-") as directory:
        broker = KafkaBroker(
            Path(directory),
            jvm=("-XX:TieredStopAtLevel=1",),
            environment=environment,
            leaves_classes=archive,
        )
        try:
            broker.start()
            broker.stop()
        finally:
            broker.kill()


def prepare() -> Path:
    """Have in the cache all that a broker takes from it; where its jars are."""
    archive_options(lambda path: leave_classes(path, {}))
    return kafka_jars()

"""Brokers of older and newer Kafka versions: their jars, and those with ZooKeeper."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.kafka.jars import JarSet, kafka_jars
from controlplane.demo.processes.java import find_java, plain_environment
from controlplane.demo.processes.ports import HOST, free_port, is_open

_LOG4J_2 = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3")
_LOG4J_2_NEWER = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.5")
_LOG4J_1 = ("org.slf4j", "slf4j-reload4j", "1.7.36")
KRAFT_ACLS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ZOOKEEPER_ACLS = "kafka.security.authorizer.AclAuthorizer"
START_S = 90.0
JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")


def jars_of(version: str) -> JarSet:
    logs = {"4.4": _LOG4J_2_NEWER, "4.0": _LOG4J_2}.get(version[:3], _LOG4J_1)
    return JarSet(
        name=f"kafka-{version}",
        title=f"Kafka {version}",
        modules=(("org.apache.kafka", "kafka_2.13", version), logs),
        checksums=Path(__file__).with_name(f"kafka-{version}.sha256"),
    )


def broker_of(
    version: str,
    directory: Path,
    environment: Mapping[str, str],
    properties: Mapping[str, str] | None = None,
    *,
    authorizer: bool = False,
) -> KafkaBroker | ZooKeeperCluster:
    """A broker of this version; 2.8 has ZooKeeper, as its early KRaft had no transactions.

    With an authorizer, everybody may do everything until an ACL says otherwise.
    """
    kind = ZooKeeperCluster if version.startswith("2.") else _kraft
    extra = dict(properties or {})
    if authorizer:
        extra |= {
            "authorizer.class.name": ZOOKEEPER_ACLS if kind is ZooKeeperCluster else KRAFT_ACLS,
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
        }
    return kind(version, directory, environment, extra)


def _kraft(
    version: str, directory: Path, environment: Mapping[str, str], properties: Mapping[str, str]
) -> KafkaBroker:
    return KafkaBroker(
        directory,
        name=f"kafka-{version}",
        heap="512m",
        jvm=JVM[:1],
        environment=environment,
        jars=jars_of(version),
        properties=properties,
    )


class ZooKeeperCluster:
    """One broker and the ZooKeeper that it needs, as all were before KRaft."""

    def __init__(
        self,
        version: str,
        directory: Path,
        environment: Mapping[str, str],
        properties: Mapping[str, str],
    ) -> None:
        self._directory = directory
        self._environment = plain_environment(dict(environment))
        self._jars = jars_of(version)
        self._properties = properties
        self._processes: list[subprocess.Popen[bytes]] = []
        self._port, self._keeper = free_port(), free_port()

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self._port}"

    def start(self) -> ZooKeeperCluster:
        keeper = {
            "clientPort": str(self._keeper),
            "clientPortAddress": HOST,
            "dataDir": str(self._directory / "keeper"),
            "admin.enableServer": "false",
        }
        self._run("org.apache.zookeeper.server.quorum.QuorumPeerMain", keeper)
        self._wait(lambda: is_open(self._keeper))
        broker = {
            "broker.id": "1",
            "zookeeper.connect": f"{HOST}:{self._keeper}",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self._directory / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "5",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._properties,
        }
        self._run("kafka.Kafka", broker)
        self._wait(self._answers)
        return self

    def kill(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    def _run(self, main: str, settings: Mapping[str, str]) -> None:
        name = main.rpartition(".")[2]
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [find_java(), *JVM, "-cp", f"{kafka_jars(jars=self._jars)}/*", main, str(path)]
        with (self._directory / f"{name}.log").open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=self._environment,
                    cwd=self._directory,
                )
            )

    def _wait(self, looks: Callable[[], bool]) -> None:
        until = time.monotonic() + START_S
        while not looks():
            assert self._processes[-1].poll() is None, self._log_ends()
            assert time.monotonic() < until, self._log_ends()
            time.sleep(0.2)

    def _log_ends(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in self._directory.glob("*.log"))

    def _answers(self) -> bool:
        if not is_open(self._port):
            return False
        try:
            silent: dict[str, str | int | float | bool] = {
                "bootstrap.servers": self.bootstrap,
                "log_level": 0,
            }
            return bool(AdminClient(silent).list_topics(timeout=2).brokers)
        except KafkaException:
            return False

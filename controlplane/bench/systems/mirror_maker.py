"""Real MirrorMaker 2 as people run it: its defaults, tuned by the book, tuned and exactly-once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from controlplane.bench.systems.interface import ProcessSystem, ReplicationTask
from controlplane.demo.kafka.jars import VERSION, JarSet, kafka_jars
from controlplane.demo.kafka.server_properties import LOGGING
from controlplane.demo.processes.java import find_java
from controlplane.demo.processes.ports import HOST, free_port

MIRROR = JarSet(
    name=f"mirror-{VERSION}",
    title=f"MirrorMaker 2 {VERSION}",
    modules=(
        ("org.apache.kafka", "connect-mirror", VERSION),
        # Kafka's own distribution brings this binding; without it nothing is logged.
        ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ),
    checksums=Path(__file__).with_name(f"mirror-{VERSION}.sha256"),
)
MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"

# What bin/connect-mirror-maker.sh and bin/kafka-run-class.sh give it.
JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
CONSUMER = {
    "fetch.min.bytes": "262144",
    "fetch.max.wait.ms": "100",
    "fetch.max.bytes": "52428800",
    "max.partition.fetch.bytes": "4194304",
    "max.poll.records": "5000",
    "receive.buffer.bytes": "1048576",
}
PRODUCER = {
    "batch.size": "524288",
    "linger.ms": "50",
    "buffer.memory": "134217728",
    "max.request.size": "10485760",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """One way to run it."""

    label: str
    tuned: bool
    heap: str = "2g"
    # When tuned; otherwise it has its own default, one.
    tasks: int = 2
    exactly_once: bool = False

    @property
    def delivery(self) -> str:
        return "exactly_once" if self.exactly_once else "at_least_once"


PROFILES = {
    profile.label: profile
    for profile in (
        Profile(label="mm2-default", tuned=False),
        Profile(label="mm2-tuned", tuned=True),
        Profile(label="mm2-tuned-1", tuned=True, tasks=1),
        Profile(label="mm2-tuned-512m", tuned=True, heap="512m"),
        Profile(label="mm2-tuned-eos", tuned=True, exactly_once=True),
    )
}


def properties(order: ReplicationTask, profile: Profile, rest_port: int = 0) -> dict[str, str]:
    """The whole mm2.properties. One broker a cluster, so every internal topic has one replica."""
    aliases = {link.source_alias: order.source for link in order.links}
    aliases |= {link.target_alias: order.target for link in order.links}
    found = {"clusters": ",".join(aliases)}
    found |= {f"{alias}.bootstrap.servers": servers for alias, servers in aliases.items()}
    found |= dict.fromkeys(
        (
            "replication.factor",
            "checkpoints.topic.replication.factor",
            "heartbeats.topic.replication.factor",
            "offset-syncs.topic.replication.factor",
            "config.storage.replication.factor",
            "offset.storage.replication.factor",
            "status.storage.replication.factor",
        ),
        "1",
    )
    if order.ca is not None:
        found |= {"security.protocol": "SSL", "ssl.truststore.type": "PEM"}
        found["ssl.truststore.location"] = str(order.ca)
    for link in order.links:
        found |= {f"{link.name}.enabled": "true", f"{link.name}.topics": ",".join(link.topics)}
    if profile.tuned:
        found |= _tuning(order, profile)
    if profile.exactly_once:
        found |= _exactly_once(order, rest_port)
    return found


def _tuning(order: ReplicationTask, profile: Profile) -> dict[str, str]:
    # Every pair of clusters gets a worker for heartbeats unless told otherwise.
    found = {"emit.heartbeats.enabled": "false", "tasks.max": str(profile.tasks)}
    found["offset.lag.max"] = "10000"
    for alias in {link.source_alias for link in order.links}:
        found |= {f"{alias}.consumer.{key}": value for key, value in CONSUMER.items()}
    for alias in {link.target_alias for link in order.links}:
        found |= {f"{alias}.producer.{key}": value for key, value in PRODUCER.items()}
        found[f"{alias}.producer.compression.type"] = order.codec
    return found


def _exactly_once(order: ReplicationTask, rest_port: int) -> dict[str, str]:
    found = {"dedicated.mode.enable.internal.rest": "true"}
    found["listeners"] = f"http://{HOST}:{rest_port}"
    for link in order.links:
        found[f"{link.target_alias}.exactly.once.source.support"] = "enabled"
        found[f"{link.source_alias}.consumer.isolation.level"] = "read_committed"
    return found


class MirrorMaker(ProcessSystem):
    """The dedicated mode: one JVM, no REST unless exactly-once needs it."""

    system = "mm2"
    leaves = ("heartbeats",)

    def __init__(
        self,
        profile: Profile,
        directory: Path,
        environment: Mapping[str, str],
        *,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """`extra` are properties of every flow."""
        super().__init__(directory, environment)
        self._extra = dict(extra or {})
        self._profile = profile
        self.label = profile.label
        self.system = profile.label.removesuffix("-eos")
        self.delivery = profile.delivery
        self.tasks = profile.tasks if profile.tuned else 1

    def start(self, order: ReplicationTask) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = self._settings(order, free_port())
        path = self.directory / "mm2.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        logging = self.directory / "log4j2.properties"
        logging.write_text(LOGGING.format(path=self.directory / "mm2.log"))
        self.launch(
            [
                find_java(),
                *self._jvm,
                f"-Dlog4j2.configurationFile={logging}",
                "-cp",
                f"{kafka_jars(jars=MIRROR)}/*",
                MAIN,
                str(path),
            ]
        )

    def _settings(self, order: ReplicationTask, rest_port: int) -> dict[str, str]:
        found = properties(order, self._profile, rest_port)
        for link in order.links:
            found |= {f"{link.name}.{key}": value for key, value in self._extra.items()}
        return found

    @property
    def _jvm(self) -> list[str]:
        return [*JVM, "-Xms256m", f"-Xmx{self._profile.heap}"]

    def configuration(self, order: ReplicationTask) -> str:
        settings = self._settings(order, 8083)
        command = f"java {' '.join(self._jvm)} -cp 'mirror-{VERSION}/*' {MAIN} mm2.properties"
        lines = [f"{key} = {value}" for key, value in settings.items()]
        return "\n".join([f"# {command}", *lines])

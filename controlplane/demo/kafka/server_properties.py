"""What a demo broker reads: its server.properties and the settings of its log."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

from controlplane.demo.processes.ports import HOST

# One machine, few partitions, quick to start and to stop; Kafka's own defaults otherwise.
DEFAULTS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "16777216",
    # A broker killed with -9 may not register again before its old session ends (9 s by default).
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    # A controller with nothing to write writes so twice a second: a fifth of its idle cost.
    "metadata.max.idle.interval.ms": "5000",
}

# The log is the only place where a broker says why it did not start: keep it, keep it small.
LOGGING = """\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %m (%c{{1}})%n%xEx
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 5MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listener:
    """A listener beside the plaintext one; `name` is free (`SECURE`), `protocol` Kafka's word.

    `advertised`: the port that clients use, 0 for its own.
    """

    name: str
    protocol: str
    port: int = 0
    advertised: int = 0

    @property
    def client_port(self) -> int:
        return self.advertised or self.port


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """One node: its id, its ports, the controller voters, the number of brokers in the cluster."""

    node: int
    port: int
    controller_port: int
    voters: str
    brokers: int

    @classmethod
    def alone(cls, port: int, controller_port: int) -> NodeConfig:
        voters = f"1@{HOST}:{controller_port}"
        return cls(node=1, port=port, controller_port=controller_port, voters=voters, brokers=1)


def server_properties(
    node: NodeConfig, listeners: Iterable[Listener], data: Path, extra: Mapping[str, str]
) -> dict[str, str]:
    listeners = list(listeners)
    others = [f"{item.name}://{HOST}:{item.port}" for item in listeners]
    told = [f"{item.name}://{HOST}:{item.client_port}" for item in listeners]
    protocols = [f"{item.name}:{item.protocol}" for item in listeners]
    plain = f"PLAINTEXT://{HOST}:{node.port}"
    controller = f"CONTROLLER://{HOST}:{node.controller_port}"
    copies, in_sync = str(min(3, node.brokers)), str(min(2, node.brokers))
    return {
        **DEFAULTS,
        "process.roles": "broker,controller",
        "node.id": str(node.node),
        "controller.quorum.voters": node.voters,
        "listeners": ",".join([plain, controller, *others]),
        "advertised.listeners": ",".join([plain, *told]),
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *protocols]
        ),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        **extra,
    }

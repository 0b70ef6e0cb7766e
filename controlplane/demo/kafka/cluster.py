"""Several brokers that form one Kafka cluster, for tests that need replicas or an election."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from controlplane.demo.kafka.broker import START_DEADLINE, KafkaBroker, new_cluster_id
from controlplane.demo.kafka.server_properties import Listener, NodeConfig
from controlplane.demo.processes.ports import HOST, free_port


class KafkaCluster:
    """Brokers that are controllers too; each may be killed and restarted on its own."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        name: str = "kafka",
        properties: Mapping[str, str] | None = None,
        listeners: Sequence[Listener] = (),
        heap: str = "512m",
        jvm: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        ports = [(free_port(), free_port()) for _ in range(brokers)]
        voters = ",".join(f"{node}@{HOST}:{two}" for node, (_, two) in enumerate(ports, start=1))
        identity = new_cluster_id()
        self.brokers = [
            KafkaBroker(
                directory / f"broker-{node}",
                name=f"{name}-{node}",
                properties=properties,
                listeners=listeners,
                heap=heap,
                jvm=jvm,
                environment=environment,
                cluster_id=identity,
                node=NodeConfig(
                    node=node, port=port, controller_port=two, voters=voters, brokers=brokers
                ),
            )
            for node, (port, two) in enumerate(ports, start=1)
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def start(self, deadline: float = START_DEADLINE) -> KafkaCluster:
        try:
            for broker in self.brokers:
                broker.launch()
            for broker in self.brokers:
                broker.wait(deadline)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        for broker in self.brokers:
            if broker.process is not None:
                broker.process.terminate()
        for broker in self.brokers:
            broker.stop()

    def kill(self) -> None:
        for broker in self.brokers:
            broker.kill()

"""Starts the protocol stub for the clusters of this database, and reads what was asked of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from mirrors.domain.offsets.runs import runs_topic
from mirrors.models import Cluster, FlowTopic, GroupOffset

# A look at many partitions is one request to each broker that leads some of them.
BROKERS = 3
_START_S = 120.0


@dataclasses.dataclass(frozen=True)
class Asked:
    """Requests to all brokers by name, and the topics, partitions or groups that they named."""

    requests: dict[str, int]
    items: dict[str, int]

    def of(self, name: str) -> str:
        return f"{self.requests.get(name, 0):,} for {self.items.get(name, 0):,}"


class StubProcess:
    """The running stub. `control` is its port for the counts."""

    def __init__(self, control: int) -> None:
        self.control = control

    def asked(self) -> Asked:
        """What was asked since the last call."""
        with socket.create_connection(("127.0.0.1", self.control), timeout=30) as connection:
            text = b"".join(iter(lambda: connection.recv(65_536), b""))
        return Asked(**json.loads(text))

    @classmethod
    @contextlib.contextmanager
    def started(cls) -> Iterator[Self]:
        """Every cluster of the database gets the addresses of its stub."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "clusters.json"
            path.write_text(json.dumps(describe_clusters()))
            command = [sys.executable, "-m", "controlplane.bench.scale.protocol_stub"]
            process = subprocess.Popen(
                [*command, str(path), str(BROKERS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            try:
                line = process.stdout.readline() if process.stdout else ""
                if not line:
                    raise RuntimeError("The protocol stub ended at its start.")
                ports = json.loads(line)
                for alias, mine in ports["clusters"].items():
                    servers = ",".join(f"127.0.0.1:{port}" for port in mine)
                    Cluster.objects.filter(alias=alias).update(bootstrap_servers=servers)
                yield cls(ports["control"])
            finally:
                process.terminate()
                process.wait(_START_S)


def describe_clusters() -> dict[str, Any]:
    """Topics and groups of each cluster, as its flows have them."""
    found: dict[str, dict[str, Any]] = {
        alias: {"topics": {}, "groups": {}}
        for alias in Cluster.objects.values_list("alias", flat=True)
    }
    rows = FlowTopic.objects.order_by().values_list(
        "flow__source__alias", "flow__target__alias", "topic", "remote_topic", "partitions"
    )
    for source, target, topic, remote, partitions in rows:
        found[source]["topics"][topic] = partitions
        found[target]["topics"][remote] = partitions
        found[target]["topics"][f"mm2-positions.{source}.internal"] = 1
        found[target]["topics"][runs_topic(source)] = 1
    offsets = GroupOffset.objects.exclude(topic="").order_by()
    for source, group, topic, partition in offsets.values_list(
        "flow__source__alias", "group", "topic", "partition"
    ).iterator(chunk_size=10_000):
        found[source]["groups"].setdefault(group, []).append((topic, partition))
    return found

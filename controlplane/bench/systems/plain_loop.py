"""The plain confluent-kafka loop as a system under test."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from controlplane.bench.errors import BenchError
from controlplane.bench.systems.interface import ProcessSystem, ReplicationTask

PROGRAM = Path(__file__).with_name("plain_loop_program.py")


class CopyLoop(ProcessSystem):
    """One Python process; the floor of what librdkafka can do record by record."""

    label = system = "loop"
    delivery = "at_least_once"
    wants_topics = True

    def start(self, order: ReplicationTask) -> None:
        if len(order.links) > 1:
            raise BenchError("The loop copies one flow; ask it for no more.")
        if order.ca is not None:
            raise BenchError("The loop knows no TLS; leave it out of this cell.")
        # By path, not as a module: the package would bring Django and Celery into the process.
        self.launch([sys.executable, "-P", str(PROGRAM), *self._arguments(order)])

    def _arguments(self, order: ReplicationTask) -> list[str]:
        link = order.links[0]
        return [order.source, order.target, order.codec, f"{link.source_alias}.", *link.topics]

    def configuration(self, order: ReplicationTask) -> str:
        program = "controlplane/bench/systems/plain_loop_program.py"
        return f"python {program} {shlex.join(self._arguments(order))}"

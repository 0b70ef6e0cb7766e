"""The product as people run it, with two clusters that the judge may kill."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from controlplane.demo.console import Console
from controlplane.demo.kafka.broker import KafkaBroker, Listener
from controlplane.demo.processes.ports import HOST, free_port
from controlplane.demo.stack import DemoStack
from controlplane.demo.workspace import Workspace
from tests.journeys.demo_client import Rest
from tests.security.vault import Vault

# Everyone may do everything until a rule says otherwise; retention acts within a second.
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "file.delete.delay.ms": "1000",
    # Otherwise deleted records are there again after kill -9.
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
}
# Listeners with a certificate: whether its issuer is known, its host, and when it ends in days.
_TLS = {
    "TLS": (True, HOST, 200.0),
    "ELSEWHERE": (True, "kafka-1.elsewhere.example", 200.0),
    "EXPIRED": (True, HOST, -2.0),
    "UNKNOWNCA": (False, HOST, 200.0),
}
# Built-in rules wait two minutes before they call somebody; here they call at once.
RULES_WAIT_S = 1


class JudgeStage(DemoStack):
    """A demo without its traffic and without its flows, whose brokers have TLS listeners as well.

    `wrong_listeners`: a client that connects by TLS as it should cannot use them.
    """

    wrong_listeners = ("PLAINTEXT", "ELSEWHERE", "EXPIRED", "UNKNOWNCA")

    def __init__(self, workspace: Workspace, console: Console, vault: Vault) -> None:
        self._vault = vault
        super().__init__(workspace, console)

    def address(self, name: str, listener: str) -> str:
        broker = self._brokers[name]
        return broker.bootstrap if listener == "PLAINTEXT" else broker.bootstrap_of(listener)

    def connection(self, name: str, *, by_tls: bool) -> dict[str, str]:
        """The fields of a registered cluster that say how to connect."""
        if not by_tls:
            return {"bootstrap_servers": self.address(name, "PLAINTEXT")}
        return {
            "bootstrap_servers": self.address(name, "TLS"),
            "security_protocol": "SSL",
            "ssl_ca": self._vault.reference("ca.pem"),
        }

    def start(self) -> None:
        os.environ.update(self._guard.environment)
        self._guard.watch()
        self._workspace.remember(url=self.url)
        self.supervisor.start()
        self._side_by_side(self._kafka, self._redis, self._web, self._migrate, self._workers)
        self._workspace.publish(self.facts)
        self._clear()

    def start_traffic(self) -> None:
        """There is none."""

    @property
    def process_environment(self) -> dict[str, str]:
        """For a program beside the demo's own: it does not outlive the tests."""
        return {**os.environ, **self._guard.environment}

    def kill(self, alias: str) -> None:
        """kill -9, and nobody starts it again until `revive`."""
        broker = self._brokers[alias]
        self.supervisor.release(broker)
        broker.kill()

    def revive(self, alias: str) -> None:
        broker = self._brokers[alias]
        broker.start()
        self.supervisor.adopt(broker)

    def is_dead(self, alias: str) -> bool:
        return not self._brokers[alias].alive

    def _clear(self) -> None:
        """The demo's own flows go; the rules of alerts call at once."""
        rest = Rest(self)
        for flow in rest("flows/")["results"]:
            remove_flow(rest, flow["id"])
        for rule in rest("alert-rules/?page_size=100")["results"]:
            rest(f"alert-rules/{rule['id']}/", {"for_seconds": RULES_WAIT_S}, method="PATCH")

    def _new_broker(self, alias: str) -> KafkaBroker:
        broker = super()._new_broker(alias)
        return KafkaBroker(
            broker.directory,
            name=alias,
            heap="512m",
            jvm=("-XX:TieredStopAtLevel=1",),
            environment=self._guard.environment,
            listeners=[Listener(name=kind, protocol="SSL", port=free_port()) for kind in _TLS],
            properties={**PROPERTIES, **self._certificates(broker.directory)},
        )

    def _certificates(self, directory: Path) -> dict[str, str]:
        found: dict[str, str] = {}
        for listener, (is_known, host, days) in _TLS.items():
            store = directory.with_name(f"{directory.name}-{listener.lower()}.pem")
            issuer = self._vault.authority if is_known else self._vault.stranger
            issuer.issue(listener, (host,), start_days=-30, end_days=days).keystore(store)
            prefix = f"listener.name.{listener.lower()}.ssl."
            found |= {prefix + "keystore.type": "PEM", prefix + "keystore.location": str(store)}
        return found


def remove_flow(rest: Rest, flow: int, seconds: float = 60.0) -> None:
    """Stop it, wait until it has stopped, delete it."""
    path = f"flows/{flow}/"
    if rest(path)["desired_state"] != "stopped":
        rest(f"{path}stop/", {"reason": "the judge"})
    until = time.monotonic() + seconds
    while (seen := observed(rest, path)) not in {"stopped", "draft", "failed_over"}:
        assert time.monotonic() < until, f"flow {flow} does not stop: it is {seen}"
        time.sleep(0.3)
    rest(path, method="DELETE")


def observed(rest: Rest, path: str) -> Any:
    return rest(path)["observed_state"]

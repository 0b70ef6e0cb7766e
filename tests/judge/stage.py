"""The product as people run it, with two clusters that the judge may kill."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.demo.console import Console
from controlplane.demo.kafka.broker import KafkaBroker, Listener
from controlplane.demo.processes.ports import HOST, free_port
from controlplane.demo.stack import DemoStack
from controlplane.demo.workspace import Workspace
from tests.demo_stage import on_stage
from tests.journeys.demo_client import Rest
from tests.security.vault import Vault, environment

# Everyone may do everything until a rule says otherwise; retention acts within a second.
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "file.delete.delay.ms": "1000",
    # Otherwise deleted records are there again after kill -9.
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    # Of each listener; a thread that has nothing to do looks for work three times a second.
    "num.network.threads": "1",
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
    """A demo whose brokers have TLS listeners as well and may be killed.

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

    def clear(self) -> None:
        """End the traffic, remove the demo's own flows; the rules of alerts call at once."""
        self.stop_traffic()
        rest = Rest(self)
        for flow in rest("flows/")["results"]:
            remove_flow(rest, flow["id"])
        for rule in rest("alert-rules/?page_size=100")["results"]:
            rest(f"alert-rules/{rule['id']}/", {"for_seconds": RULES_WAIT_S}, method="PATCH")

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

    def _new_broker(self, alias: str) -> KafkaBroker:
        broker = super()._new_broker(alias)
        return KafkaBroker(
            broker.directory,
            name=alias,
            heap="768m",
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


@contextmanager
def on_judge_stage(directories: pytest.TempPathFactory) -> Iterator[JudgeStage]:
    """The whole demo, running, with secrets of its own."""
    vault = Vault(directories.mktemp("vault"))
    make = functools.partial(JudgeStage, vault=vault)
    directory = directories.mktemp("stage") / "demo"
    with environment(vault.environment), on_stage(directory, make) as stage:
        yield stage


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

"""The demo with more features: TLS listeners on both sides, behind proxies that can cut."""

from __future__ import annotations

from typing import Any, ClassVar

from controlplane.demo.console import Console
from controlplane.demo.kafka.broker import KafkaBroker, Listener
from controlplane.demo.processes.ports import HOST, free_port
from controlplane.demo.stack import DemoStack
from controlplane.demo.workspace import Workspace
from tests.journeys.demo_client import Rest
from tests.security.vault import Vault
from tests.wire.proxy import Proxy

ASIDE = "both"
LIMIT = 250_000
# By name, what the flow is: primary and left are one cluster under two names, so are backup and
# right; the second names lead through TLS and a proxy.
FLOWS = {
    "primary->backup": {
        "topics": "orders, payments, customers, invoices, clicks, steady, grows, passing-.*",
        "topics.priority.high": "payments",
        "topics.priority.low": "clicks",
        "sync.group.offsets.enabled": "true",
        "tasks.max": "2",
    },
    "backup->primary": {"topics": "returns, stock"},
    "left->right": {"topics": "both"},
    "right->left": {"topics": "both"},
    "primary->archive": {
        "topics": "loose, bulk-.*",
        "topics.priority.high": "bulk-high",
        "topics.priority.low": "bulk-low",
        "bandwidth.limit.bytes": str(LIMIT),
        "delivery": "at_least_once",
        "tasks.max": "2",
    },
}
_IDENTITY = {
    "replication.policy.class": "IdentityReplicationPolicy",
    "skip.replicated": "true",
    "tasks.max": "2",
}


class WholeStage(DemoStack):
    """A stage whose brokers also take clients with certificates, through a proxy each."""

    # None is replaced after a number of tasks, so that what they leak is seen.
    worker_options: ClassVar[tuple[str, ...]] = ("--max-tasks-per-child", "1000000")

    def __init__(self, workspace: Workspace, console: Console, vault: Vault) -> None:
        self._vault = vault
        self.proxies: dict[str, Proxy] = {}
        super().__init__(workspace, console)

    def stop(self) -> None:
        super().stop()
        for proxy in self.proxies.values():
            proxy.close()

    def _new_broker(self, alias: str) -> KafkaBroker:
        plain, secure = free_port(), free_port()
        proxy = self.proxies[alias] = Proxy(HOST, secure)
        store = self._workspace.path(f"{alias}.pem")
        self._vault.authority.issue(alias, (HOST,)).keystore(store)
        return KafkaBroker(
            self._workspace.path(alias),
            name=alias,
            port=plain,
            heap="768m",
            jvm=("-XX:TieredStopAtLevel=1",),
            environment=self._guard.environment,
            listeners=[Listener(name="TLS", protocol="SSL", port=secure)],
            properties={
                # Who asks a broker where it is, is led through the proxy as well.
                "advertised.listeners": f"PLAINTEXT://{HOST}:{plain},TLS://{HOST}:{proxy.port}",
                "listener.name.tls.ssl.keystore.type": "PEM",
                "listener.name.tls.ssl.keystore.location": str(store),
                "listener.name.tls.ssl.truststore.type": "PEM",
                "listener.name.tls.ssl.truststore.location": str(self._vault.directory / "ca.pem"),
                "listener.name.tls.ssl.client.auth": "required",
            },
        )


def switch_on(stage: WholeStage, vault: Vault, archive: str) -> dict[str, int]:
    """Register the other clusters, make every flow of FLOWS what it says; ids by name."""
    rest = Rest(stage)
    rest("clusters/", {"alias": "archive", "bootstrap_servers": archive})
    for alias, behind in (("left", "primary"), ("right", "backup")):
        rest("clusters/", _secured(alias, stage.proxies[behind].port, vault))
    known = {row["name"]: row["id"] for row in rest("flows/")["results"]}
    found: dict[str, int] = {}
    for name, own in FLOWS.items():
        source, target = name.split("->")
        properties = {**own, **(_IDENTITY if own["topics"] == ASIDE else {})}
        if name in known:
            rest(f"flows/{known[name]}/", {"properties": properties}, method="PATCH")
            found[name] = known[name]
        else:
            body = {"source": source, "target": target, "properties": properties}
            found[name] = rest("flows/", {**body, "desired_state": "running"})["id"]
    return found


def _secured(alias: str, port: int, vault: Vault) -> dict[str, Any]:
    return {
        "alias": alias,
        "bootstrap_servers": f"{HOST}:{port}",
        "security_protocol": "SSL",
        "ssl_ca": vault.reference("ca.pem"),
        "ssl_certificate": vault.reference("client.pem"),
        "ssl_key": vault.reference("client.key"),
    }

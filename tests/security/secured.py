"""Real brokers that demand every kind of login: one process, many listeners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from controlplane.demo.kafka.broker import KafkaBroker, Listener
from controlplane.demo.processes.ports import HOST, free_port
from mirrors.domain.specs import ClusterSpec
from tests.security.authority import Issued
from tests.security.issuer import AUDIENCE, Issuer
from tests.security.vault import Vault

NOWHERE = "kafka.nowhere.invalid"
USER, LIMITED = "copier", "limited"
SCRAM_USER = "co=pi,er"  # both characters are escaped inside a SCRAM message
OAUTH_CLIENT = "copier-client"

# What the listeners' certificates are like; all but the first two are wrong in one way.
CERTIFICATES = ("TLS", "MTLS", "EXPIRED", "FUTURE", "ELSEWHERE", "UNKNOWNCA", "ENDING")
SASL = ("LOGIN", "LOGINTLS", "PLAINONLY", "RENEWED")
# At that listener a login holds so long (KIP-368).
RENEWED_MS = 1500
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class SecuredBroker:
    """One broker with every listener; `spec()` describes a way to connect to it."""

    def __init__(
        self, directory: Path, vault: Vault, issuer: Issuer, environment: Mapping[str, str]
    ) -> None:
        self.vault, self.issuer = vault, issuer
        names = (*CERTIFICATES, *SASL, "ADVERTISED", "ADVERTISEDTLS", "PLAINTEXT")
        self._ports = dict(zip(names, _different_ports(len(names)), strict=True))
        stores = directory / "stores"
        stores.mkdir(parents=True)
        self.broker = KafkaBroker(
            directory / "broker",
            name="secured",
            heap="512m",
            port=self._ports.pop("PLAINTEXT"),
            jvm=(
                "-XX:TieredStopAtLevel=1",
                f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.url}/jwks",
            ),
            environment=environment,
            listeners=[
                Listener(name=name, protocol=_protocol(name), port=port)
                for name, port in self._ports.items()
            ],
        )
        self.broker._properties.update(self._properties(stores))

    def start(self) -> SecuredBroker:
        self.broker.start()
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        # One request a mechanism: Kafka refuses two changes of one user in the same request.
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credential = ScramCredentialInfo(mechanism, 4096)
            changes = [
                UserScramCredentialUpsertion(user, credential, self.vault.password.encode())
                for user in (USER, SCRAM_USER)
            ]
            for future in admin.alter_user_scram_credentials(changes).values():
                future.result(20)
        return self

    def port(self, listener: str) -> int:
        return self.broker.port if listener == "PLAINTEXT" else self._ports[listener]

    def address(self, listener: str) -> str:
        return f"{HOST}:{self.port(listener)}"

    def spec(
        self, listener: str, mechanism: str = "", *, alias: str = "secured", **changes: object
    ) -> ClusterSpec:
        """A spec that connects to the listener as it demands; `changes` make it wrong."""
        protocol = _protocol(listener)
        fields: dict[str, object] = {
            "alias": alias,
            "bootstrap_servers": self.address(listener),
            "security_protocol": protocol,
        }
        if protocol.endswith("SSL"):
            fields["ssl_ca"] = self.vault.reference("ca.pem")
        if listener == "MTLS":
            fields["ssl_certificate"] = self.vault.reference("client.pem")
            fields["ssl_key"] = self.vault.reference("client.key")
        if protocol.startswith("SASL"):
            fields |= self._login(mechanism)
        return ClusterSpec(**{**fields, **changes})  # type: ignore[arg-type]

    def _login(self, mechanism: str) -> dict[str, object]:
        if mechanism == "OAUTHBEARER":
            return {
                "sasl_mechanism": mechanism,
                "sasl_username": OAUTH_CLIENT,
                "sasl_password": "env:KAFKA_TEST_CLIENT_SECRET",
                "properties": {
                    "sasl.oauthbearer.token.endpoint.url": f"{self.issuer.url}/token",
                    "sasl.oauthbearer.scope": "kafka",
                },
            }
        return {
            "sasl_mechanism": mechanism,
            "sasl_username": SCRAM_USER if mechanism.startswith("SCRAM") else USER,
            "sasl_password": "env:KAFKA_TEST_PASSWORD",
        }

    def _properties(self, stores: Path) -> dict[str, str]:
        trusted = stores / "ca.pem"
        trusted.write_text(self.vault.authority.pem)
        found: dict[str, str] = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(
                f"User:{name}"
                for name in (
                    "ANONYMOUS",
                    USER,
                    SCRAM_USER,
                    OAUTH_CLIENT,
                    "CN=copier-by-certificate",
                )
            ),
            "connection.failed.authentication.delay.ms": "20",
            "advertised.listeners": self._advertised(),
        }
        for name in (*CERTIFICATES, "LOGINTLS", "ADVERTISEDTLS"):
            prefix = f"listener.name.{name.lower()}.ssl."
            store = self._certificate(name).keystore(stores / f"{name.lower()}.pem")
            found |= {
                prefix + "keystore.type": "PEM",
                prefix + "keystore.location": str(store),
                prefix + "truststore.type": "PEM",
                prefix + "truststore.location": str(trusted),
                prefix + "client.auth": "required" if name == "MTLS" else "none",
            }
        for name in SASL:
            found |= self._sasl(
                f"listener.name.{name.lower()}.", ("PLAIN",) if name == "PLAINONLY" else MECHANISMS
            )
        return found

    def _advertised(self) -> str:
        def host(name: str) -> str:
            return NOWHERE if name.startswith("ADVERTISED") else HOST

        others = [f"{name}://{host(name)}:{port}" for name, port in self._ports.items()]
        return ",".join([f"PLAINTEXT://{HOST}:{self.broker.port}", *others])

    def _certificate(self, name: str) -> Issued:
        authority, right = self.vault.authority, (HOST, "localhost")
        if name == "EXPIRED":
            return authority.issue(name, right, start_days=-30, end_days=-2)
        if name == "FUTURE":
            return authority.issue(name, right, start_days=3)
        if name == "ELSEWHERE":
            return authority.issue(name, ("kafka-1.elsewhere.example", "10.9.8.7"))
        if name == "UNKNOWNCA":
            return self.vault.stranger.issue(name, right)
        return authority.issue(name, right, end_days=5 if name == "ENDING" else 200)

    def _sasl(self, prefix: str, mechanisms: Sequence[str]) -> dict[str, str]:
        package = "org.apache.kafka.common.security"
        found = {prefix + "sasl.enabled.mechanisms": ",".join(mechanisms)}
        found[prefix + "plain.sasl.jaas.config"] = (
            f"{package}.plain.PlainLoginModule required "
            f'user_{USER}="{self.vault.password}" user_{LIMITED}="{self.vault.limited}";'
        )
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            found[f"{prefix}{mechanism}.sasl.jaas.config"] = (
                f"{package}.scram.ScramLoginModule required;"
            )
        if "renewed" in prefix:
            for mechanism in mechanisms:
                key = f"{prefix}{mechanism.lower()}.connections.max.reauth.ms"
                found[key] = str(RENEWED_MS)
        oauth = prefix + "oauthbearer.sasl."
        handler = f"{package}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        return found | {
            oauth + "jaas.config": f"{package}.oauthbearer.OAuthBearerLoginModule required;",
            oauth + "server.callback.handler.class": handler,
            oauth + "oauthbearer.jwks.endpoint.url": f"{self.issuer.url}/jwks",
            oauth + "oauthbearer.expected.audience": AUDIENCE,
            oauth + "oauthbearer.expected.issuer": self.issuer.url,
        }


def _different_ports(count: int) -> list[int]:
    # Asked one by one, the same free port may be named twice.
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)


def _protocol(listener: str) -> str:
    if listener in SASL:
        return "SASL_SSL" if listener == "LOGINTLS" else "SASL_PLAINTEXT"
    return "PLAINTEXT" if listener in ("PLAINTEXT", "ADVERTISED") else "SSL"

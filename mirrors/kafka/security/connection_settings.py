"""ClusterSpec to connection settings: addresses, TLS context, SASL mechanism, credentials.

The same settings serve every client: librdkafka, kafka-python, the engine and the probe.
"""

from __future__ import annotations

import dataclasses
import os
import ssl

from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.security import cleartext_logins, egress, secrets
from mirrors.kafka.security.keystores import certificates_of, key_of
from mirrors.kafka.security.oauth import TokenSource, token_source
from mirrors.kafka.security.secrets import Secret, SecretUnavailable


@dataclasses.dataclass(frozen=True, kw_only=True)
class TlsMaterial:
    """PEM texts. The CA and certificate are public; the key is never printed."""

    ca: str = ""
    certificate: str = ""
    key: Secret | None = None
    check_hostname: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionFacts:
    """Everything that a client needs to connect.

    - `bootstrap`: addresses that this deployment may connect to; `forbidden`: the others.
    - `tls`: None without TLS. The server's name to verify is the host of the connection.
    - `mechanism`: empty without SASL. `token` is set for OAUTHBEARER, `password` for the others.
    """

    alias: str
    bootstrap: tuple[tuple[str, int], ...]
    forbidden: tuple[tuple[str, int], ...] = ()
    tls: ssl.SSLContext | None = None
    mechanism: str = ""
    username: str = ""
    password: Secret | None = None
    token: TokenSource | None = None


def parse_bootstrap(servers: str) -> tuple[tuple[str, int], ...]:
    """`host:port,[::1]:port` as pairs; their shape was checked by the domain."""
    found = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return tuple(found)


def uses_tls(spec: ClusterSpec) -> bool:
    return spec.security_protocol.endswith("SSL")


def uses_sasl(spec: ClusterSpec) -> bool:
    return spec.security_protocol.startswith("SASL_")


def tls_material(spec: ClusterSpec) -> TlsMaterial | None:
    """The PEM texts behind the references; None when the protocol has no TLS."""
    if not uses_tls(spec):
        return None
    algorithm = spec.properties.get("ssl.endpoint.identification.algorithm", "https")
    return TlsMaterial(
        ca=certificates_of(spec.ssl_ca),
        certificate=certificates_of(spec.ssl_certificate),
        key=key_of(spec.ssl_key),
        check_hostname=algorithm == "https",
    )


def tls_context(spec: ClusterSpec) -> ssl.SSLContext | None:
    """A verifying context with the cluster's CA and client certificate, or the system's CAs."""
    material = tls_material(spec)
    if material is None:
        return None
    if material.ca:
        # The system's CAs are not read: that takes longer than the rest of a connection.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load_ca(context, spec, material.ca)
    else:
        context = ssl.create_default_context()
    context.check_hostname = material.check_hostname
    if material.key is not None:
        _load_certificate(context, spec, material)
    return context


def _load_ca(context: ssl.SSLContext, spec: ClusterSpec, pem: str) -> None:
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):
        raise SecretUnavailable(
            f"The CA of cluster {spec.alias}, {spec.ssl_ca}, contains no certificate in PEM format."
        ) from None


def _load_certificate(context: ssl.SSLContext, spec: ClusterSpec, material: TlsMaterial) -> None:
    def refuse_to_ask() -> str:
        # Without this OpenSSL would ask a terminal for the passphrase and wait.
        raise UnderstudyError("encrypted")

    assert material.key is not None  # noqa: S101 - the caller checked; this tells the type checker
    # load_cert_chain reads files only: an anonymous file in memory never reaches a disk.
    descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "w", closefd=False) as stream:
            stream.write(material.certificate + "\n" + material.key.reveal() + "\n")
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=refuse_to_ask)
    except UnderstudyError:
        raise SecretUnavailable(
            f"The client key of cluster {spec.alias}, {spec.ssl_key}, is encrypted. Store it "
            "without a passphrase, in a file that only this service can read."
        ) from None
    except (ssl.SSLError, OSError):
        raise SecretUnavailable(
            f"The client certificate of cluster {spec.alias} cannot be used: "
            f"{spec.ssl_certificate} and {spec.ssl_key} must be PEM, and must match."
        ) from None
    finally:
        os.close(descriptor)


def password_of(spec: ClusterSpec) -> Secret:
    return secrets.resolve(spec.sasl_password)


def connection_facts(spec: ClusterSpec) -> ConnectionFacts:
    """Resolve everything once; raises InvalidSettings, SecretUnavailable or KafkaUnavailable."""
    if problems := spec.validate():
        raise InvalidSettings(problems)
    addresses = parse_bootstrap(spec.bootstrap_servers)
    bootstrap = tuple(address for address in addresses if egress.is_allowed(*address))
    if not bootstrap:
        egress.check(*addresses[0])
    sasl = uses_sasl(spec)
    login = spec.sasl_mechanism if sasl else ""
    for host, port in bootstrap:
        # Before the secret is resolved: librdkafka logs in wherever it connects.
        cleartext_logins.check(host, port, alias=spec.alias, mechanism=login, tls=uses_tls(spec))
    oauth = sasl and spec.sasl_mechanism == "OAUTHBEARER"
    return ConnectionFacts(
        alias=spec.alias,
        bootstrap=bootstrap,
        forbidden=tuple(address for address in addresses if address not in bootstrap),
        tls=tls_context(spec),
        mechanism=login,
        username=spec.sasl_username if sasl else "",
        password=password_of(spec) if sasl and not oauth else None,
        token=token_source(spec) if oauth else None,
    )

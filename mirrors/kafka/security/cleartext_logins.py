"""Where a password or token may be sent without TLS (UNDERSTUDY_CLEARTEXT_LOGIN_ALLOW).

SASL PLAIN sends the password itself and OAUTHBEARER a token; over SASL_PLAINTEXT anybody on the
network reads both. An OAuth token endpoint under http:// receives the client secret the same way.
SCRAM proves the password without sending it, so it is not restricted here.

Loopback addresses are always allowed. The setting has the form of UNDERSTUDY_EGRESS_ALLOW, but
without it nothing else is allowed.
"""

from __future__ import annotations

import ipaddress
import os
import urllib.parse
from collections.abc import Mapping

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.schemas.registry import RegistrySpec, host_and_port
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.security import egress

VARIABLE = "UNDERSTUDY_CLEARTEXT_LOGIN_ALLOW"
_TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a setting
_SENT = {"PLAIN": "the password", "OAUTHBEARER": "the access token"}


def exposed_secret(*, mechanism: str, tls: bool) -> str | None:
    """The secret that this login exposes on the network; None if none."""
    return None if tls else _SENT.get(mechanism)


def is_allowed(host: str, port: int, *, environ: Mapping[str, str] | None = None) -> bool:
    """Whether a secret may be sent to this address without TLS."""
    if _is_loopback(host):
        return True
    rules = (os.environ if environ is None else environ).get(VARIABLE, "")
    has_rule = any(rule.strip() for rule in rules.split(","))
    return has_rule and egress.is_allowed(host, port, environ={egress.VARIABLE: rules})


def check(host: str, port: int, *, alias: str, mechanism: str, tls: bool) -> None:
    """Raise KafkaUnavailable before a login would expose a secret; call it before connecting."""
    sent = exposed_secret(mechanism=mechanism, tls=tls)
    if sent is not None and not is_allowed(host, port):
        raise KafkaUnavailable(
            f"Cluster {alias}: {_sentence(f'{host}:{port}', mechanism, sent)}",
            code="cleartext_login",
        )


def check_endpoint(url: str, *, alias: str) -> None:
    """Raise KafkaUnavailable before a client secret would go to an http:// token endpoint."""
    if (why := _endpoint_refusal(url)) is not None:
        raise KafkaUnavailable(f"Cluster {alias}: {why}", code="cleartext_login")


def refusals(spec: ClusterSpec) -> dict[str, list[str]]:
    """Field -> sentences for a cluster whose login would be readable on the network."""
    if not spec.security_protocol.startswith("SASL_"):
        return {}
    tls = spec.security_protocol == "SASL_SSL"
    found: dict[str, list[str]] = {}
    sent = exposed_secret(mechanism=spec.sasl_mechanism, tls=tls)
    exposed = [address for address in _addresses(spec) if not is_allowed(*address)] if sent else []
    if sent and exposed:
        named = ", ".join(f"{host}:{port}" for host, port in exposed)
        found["security_protocol"] = [_sentence(named, spec.sasl_mechanism, sent)]
    if spec.sasl_mechanism == "OAUTHBEARER":
        why = _endpoint_refusal(spec.properties.get(_TOKEN_ENDPOINT, ""))
        if why is not None:
            found["properties"] = [why]
    return found


def registry_refusal(spec: RegistrySpec, url: str) -> str | None:
    """Why the credentials of a schema registry may not go to this URL; None if they may."""
    host, port = host_and_port(url)
    if not (spec.password or spec.token) or url.startswith("https:") or is_allowed(host, port):
        return None
    return (
        f"The schema registry {host}:{port} would receive its credentials without encryption, "
        f"where anybody on the network can read them. Use https, or allow the address in {VARIABLE}"
        " of this deployment."
    )


def _addresses(spec: ClusterSpec) -> list[tuple[str, int]]:
    found = []
    for server in spec.bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if port.isdecimal():
            found.append((host.strip("[]"), int(port)))
    return found


def _endpoint_refusal(url: str) -> str | None:
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        return None
    if parts.scheme != "http" or is_allowed(host, port):
        return None
    return (
        f"the token endpoint {host}:{port} would receive the client secret without encryption, "
        f"where anybody on the network can read it. Use https, or allow the address in {VARIABLE} "
        "of this deployment."
    )


def _sentence(where: str, mechanism: str, sent: str) -> str:
    return (
        f"{mechanism} over SASL_PLAINTEXT would send {sent} to {where} without encryption, where "
        "anybody on the network can read it. Use SASL_SSL or SCRAM, or allow the address in "
        f"{VARIABLE} of this deployment."
    )


def _is_loopback(host: str) -> bool:
    name = host.strip("[]").lower().rstrip(".")
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return name == "localhost"

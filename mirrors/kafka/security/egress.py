"""Which hosts and ports this deployment may connect to (UNDERSTUDY_EGRESS_ALLOW); empty: all.

Link-local addresses and metadata services of clouds are never allowed.

The value is a list such as `*.kafka.internal:9092,10.0.0.0/8:9093-9099,broker-1`. A name is
compared as it is written or advertised, not by the addresses that it resolves to.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import os
from collections.abc import Mapping, Sequence
from typing import Any

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.security.ip_addresses import is_forbidden

VARIABLE = "UNDERSTUDY_EGRESS_ALLOW"


def is_allowed(host: str, port: int, *, environ: Mapping[str, str] | None = None) -> bool:
    if is_forbidden(host):
        return False
    value = (os.environ if environ is None else environ).get(VARIABLE, "")
    rules = [rule.strip() for rule in value.split(",") if rule.strip()]
    return not rules or any(_matches(rule, host.lower().strip("[]"), port) for rule in rules)


def check(host: str, port: int, *, environ: Mapping[str, str] | None = None) -> None:
    """Raise KafkaUnavailable when the deployment forbids a connection to this address."""
    if is_forbidden(host):
        raise KafkaUnavailable(
            f"{host} is a link-local address or a cloud's metadata service: no connection is made.",
            code="egress_denied",
        )
    if not is_allowed(host, port, environ=environ):
        raise KafkaUnavailable(
            f"Connections to {host}:{port} are not allowed by this deployment: no rule of "
            f"{VARIABLE} matches it. Ask the administrator of the deployment to allow it.",
            code="egress_denied",
        )


def permitted_targets(targets: Sequence[tuple[Any, ...]], port: int) -> list[tuple[Any, ...]]:
    """What a name resolved to (family, address), without link-local addresses and metadata
    services. Raises KafkaUnavailable if it has only those."""
    found = [target for target in targets if not is_forbidden(str(target[1][0]))]
    if targets and not found:
        check(str(targets[0][1][0]), port)
    return found


def refusals(servers: str) -> list[str]:
    """A sentence for each address of a cluster's list that is forbidden."""
    refused = []
    for address in servers.split(","):
        host, _, port = address.strip().rpartition(":")
        if port.isdecimal() and not is_allowed(host, int(port)):
            refused.append(
                f"{address.strip()} is not an address that this deployment may connect to "
                f"({VARIABLE})."
            )
    return refused


def _matches(rule: str, host: str, port: int) -> bool:
    pattern, ports = _split(rule.lower())
    return _port_matches(ports, port) and _host_matches(pattern, host)


def _split(rule: str) -> tuple[str, str]:
    if rule.startswith("["):
        host, _, rest = rule[1:].partition("]")
        return host, rest.removeprefix(":")
    if rule.count(":") > 1:  # a bare IPv6 address or network
        return rule, ""
    host, _, ports = rule.partition(":")
    return host, ports


def _port_matches(ports: str, port: int) -> bool:
    if ports in ("", "*"):
        return True
    first, _, last = ports.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()):
        return False
    return int(first) <= port <= int(last or first)


def _host_matches(pattern: str, host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(pattern, strict=False)
    except (ValueError, TypeError):
        return fnmatch.fnmatchcase(host, pattern)

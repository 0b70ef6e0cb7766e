"""ClusterSpec to client configuration for confluent-kafka.

Secrets are resolved here, in the process that connects. What comes back may be printed: secret
values hide themselves in a repr.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any, Literal

from confluent_kafka import KafkaError, Producer

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.settings.client_properties import TABLES, normalised, refusal
from mirrors.domain.settings.client_properties import Role as PropertyRole
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.quotas import THROTTLES
from mirrors.kafka.security import librdkafka_egress
from mirrors.kafka.security.connection_settings import (
    ConnectionFacts,
    connection_facts,
    tls_material,
    uses_sasl,
    uses_tls,
)


def to_librdkafka(properties: Mapping[str, str], role: PropertyRole = "cluster") -> dict[str, str]:
    """Return librdkafka's properties. Raises InvalidSettings for a property that is not supported.

    This last check covers rows and files that were not written by this program.
    """
    problems = {
        name: [sentence]
        for name, text in properties.items()
        if (sentence := refusal(role, name, text)) is not None
    }
    if problems:
        raise InvalidSettings(problems)
    return {
        key.librdkafka: _divided(normalised(role, name, text), key.divide)
        for name, text in properties.items()
        if (key := TABLES[role][name]).librdkafka is not None
    }


def _divided(value: str, divide: int) -> str:
    return value if divide == 1 else str(int(value) // divide)


Role = Literal["admin", "consumer", "producer"]
log = logging.getLogger("mirrors.kafka.client")


def client_config(
    spec: ClusterSpec,
    *,
    client_id: str,
    role: Role = "admin",
    tuning: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a confluent-kafka configuration.

    - `tuning`: an operator's properties in Java's names (allow-listed).
    - `extra`: librdkafka properties of this program; they take precedence.
    - With OAUTHBEARER the first token is fetched here, so that the error of a token endpoint is
      raised and not hidden in a client's background errors.
    """
    facts = connection_facts(spec)
    config: dict[str, Any] = {
        "bootstrap.servers": ",".join(_address(host, port) for host, port in facts.bootstrap),
        "client.id": client_id,
        "security.protocol": spec.security_protocol,
        "socket.connection.setup.timeout.ms": "10000",
        "socket.keepalive.enable": "true",
        "allow.auto.create.topics": "false",
        # Not to stderr: a page and a log say it in our words.
        "logger": log,
        "error_cb": _note,
        "throttle_cb": functools.partial(_note_throttle, spec.alias),
    }
    if role == "producer":
        config.pop("allow.auto.create.topics")
    config |= librdkafka_egress.properties(facts)
    config |= to_librdkafka(spec.properties, "cluster")
    config |= to_librdkafka(tuning or {}, "cluster" if role == "admin" else role)
    if uses_tls(spec):
        config |= _tls(spec)
    if uses_sasl(spec):
        config |= _sasl(facts)
    return config | dict(extra or {})


def discard(producer: Producer) -> None:
    """End a producer and its threads now, together with its unsent records.

    Otherwise the producer lives until its last reference is released: traceback frames of a failed
    call may hold one for long.
    """
    producer.purge()
    producer.close()


def _note(error: KafkaError) -> None:
    log.info("%s", error.str())


def _note_throttle(alias: str, event: Any) -> None:
    THROTTLES.record(alias, event.broker_name, event.throttle_time * 1000)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tls(spec: ClusterSpec) -> dict[str, Any]:
    material = tls_material(spec)
    config: dict[str, Any] = {}
    if material is None:
        return config
    if material.ca:
        config["ssl.ca.pem"] = material.ca
    if material.key is not None:
        config["ssl.certificate.pem"] = material.certificate
        config["ssl.key.pem"] = material.key.quiet()
    if not material.check_hostname:
        config["ssl.endpoint.identification.algorithm"] = "none"
    return config


def _sasl(facts: ConnectionFacts) -> dict[str, Any]:
    config: dict[str, Any] = {"sasl.mechanism": facts.mechanism}
    if facts.token is not None:
        facts.token.token()
        config["oauth_cb"] = facts.token.for_librdkafka
    if facts.password is not None:
        config["sasl.username"] = facts.username
        config["sasl.password"] = facts.password.quiet()
    return config

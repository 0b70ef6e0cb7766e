"""Every client property that may be set is accepted by the real client, over its whole range."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from mirrors.domain.settings.client_properties import TABLES, ClientKey, Role, refusal
from mirrors.domain.settings.value_types import Boolean, Integer, OneOf
from mirrors.kafka.connection.client_config import to_librdkafka

EVERY = [(role, key) for role, table in TABLES.items() for key in table.values()]
NATIVE = [(role, key) for role, key in EVERY if key.librdkafka and role != "cluster"]
# librdkafka wants these above reconnect.backoff.ms, which `contradictions` sees to.
IN_PAIRS = {"reconnect.backoff.ms": 10_000, "reconnect.backoff.max.ms": 100}


def extremes(key: ClientKey) -> Iterator[str]:
    if isinstance(key.kind, Integer):
        low, high = key.kind.low, key.kind.high
        if key.name == "reconnect.backoff.ms":
            high = min(high, IN_PAIRS[key.name])
        elif key.name == "reconnect.backoff.max.ms":
            low = max(low, IN_PAIRS[key.name])
        yield from (str(low), str(high))
    elif isinstance(key.kind, OneOf):
        yield from key.kind.names
    elif isinstance(key.kind, Boolean):
        yield from ("true", "False")
    else:
        yield "text"


@pytest.mark.parametrize(("role", "key"), NATIVE, ids=lambda part: getattr(part, "name", part))
def test_the_real_client_takes_both_ends_of_the_range(role: Role, key: ClientKey) -> None:
    for text in extremes(key):
        assert refusal(role, key.name, text) is None
        config: dict[str, Any] = {
            "bootstrap.servers": "127.0.0.1:1",
            **to_librdkafka({key.name: text}, role),
        }
        assert key.librdkafka in config
        if role == "consumer":
            Consumer(config | {"group.id": "none"}).close()
        else:
            Producer(config | {"transactional.id": "none", "transaction.timeout.ms": 60_000})


@pytest.mark.parametrize("role", TABLES)
@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths", "sasl.kerberos.kinit.cmd", "sasl.jaas.config", "ssl.key.location",
        "interceptor.classes", "metric.reporters", "ssl.engine.factory.class", "key.deserializer",
        "sasl.login.callback.handler.class", "ssl.keystore.password", "ssl.providers", "debug",
        "sasl.oauthbearer.jwks.endpoint.url", "stats_cb", "builtin.features", "log_cb",
    ],
)  # fmt: skip
def test_what_loads_code_reads_files_or_runs_commands_has_no_way_in(role: Role, name: str) -> None:
    assert refusal(role, name, "x") is not None


def test_meanings_and_names_are_unique() -> None:
    for table in TABLES.values():
        assert all(key.meaning and not key.meaning.endswith(".") for key in table.values())
        natives = [key.librdkafka for key in table.values() if key.librdkafka]
        assert len(set(natives)) == len(natives)
    assert len({key.name for _, key in itertools.chain(EVERY)}) >= 28

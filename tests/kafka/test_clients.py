"""Client configurations: fixed values, allowed settings of a person, and which has precedence."""

from __future__ import annotations

import dataclasses

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.settings.client_properties import TABLES
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.client_config import client_config, to_librdkafka
from mirrors.kafka.security.connection_settings import connection_facts, parse_bootstrap

PLAIN = ClusterSpec(alias="a", bootstrap_servers="one:9092, [::1]:9093")


def test_addresses_are_read_and_written_as_clients_expect() -> None:
    assert parse_bootstrap("one:9092, [::1]:9093") == (("one", 9092), ("::1", 9093))
    config = client_config(PLAIN, client_id="test")
    assert config["bootstrap.servers"] == "one:9092,[::1]:9093"
    assert connection_facts(PLAIN).tls is None


def test_a_persons_properties_are_translated_and_our_own_code_wins() -> None:
    spec = dataclasses.replace(PLAIN, properties={"request.timeout.ms": "20000"})
    config = client_config(
        spec,
        client_id="test",
        role="producer",
        tuning={"buffer.memory": "33554432", "linger.ms": "20", "max.request.size": "2000000"},
        extra={"linger.ms": 5},
    )
    assert config["socket.timeout.ms"] == "20000"
    assert config["queue.buffering.max.kbytes"] == "32768"
    assert config["message.max.bytes"] == "2000000"
    assert config["linger.ms"] == 5


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "ssl.engine.location",
        "ssl.ca.location",
        "ssl.providers",
        "sasl.jaas.config",
        "interceptor.classes",
        "debug",
        "bootstrap.servers",
        "sasl.password",
        "log_level",
        "opaque",
    ],
)
def test_what_loads_code_reads_files_or_runs_commands_has_no_way_in(name: str) -> None:
    for role in TABLES:
        with pytest.raises(InvalidSettings) as caught:
            to_librdkafka({name: "x"}, role)
        assert list(caught.value.fields) == [name]
    with pytest.raises(UnderstudyError):
        client_config(dataclasses.replace(PLAIN, properties={name: "x"}), client_id="test")


def test_a_spec_that_does_not_hold_together_never_connects() -> None:
    wrong = dataclasses.replace(PLAIN, security_protocol="SASL_SSL", sasl_mechanism="PLAIN")
    with pytest.raises(InvalidSettings) as caught:
        client_config(wrong, client_id="test")
    assert {"sasl_username", "sasl_password"} <= set(caught.value.fields)


def test_every_client_takes_its_configuration() -> None:
    AdminClient(client_config(PLAIN, client_id="test"))
    Producer(client_config(PLAIN, client_id="test", role="producer"))
    reader = client_config(PLAIN, client_id="test", role="consumer", extra={"group.id": "g"})
    Consumer(reader).close()

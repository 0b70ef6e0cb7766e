"""Which addresses a deployment lets its processes connect to."""

from __future__ import annotations

import socket
import time

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol import sockets
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.security.connection_settings import connection_facts
from mirrors.kafka.security.egress import VARIABLE, check, is_allowed
from mirrors.kafka.security.oauth import ENDPOINT, fetch_token

ALLOWED = "*.kafka.internal:9092, 10.1.0.0/16:9093-9099, broker-1, [fd00::/8]:9092, 2001:db8::1"

CASES = [
    ("b1.kafka.internal", 9092, True),
    ("B1.Kafka.Internal", 9092, True),
    ("b1.kafka.internal", 9093, False),
    ("kafka.internal", 9092, False),
    ("b1.kafka.internal.evil.example", 9092, False),
    ("10.1.2.3", 9093, True),
    ("10.1.2.3", 9099, True),
    ("10.1.2.3", 9100, False),
    ("10.2.0.1", 9093, False),
    ("10.1.0.0.evil.example", 9093, False),
    ("broker-1", 1, True),
    ("broker-10", 9092, False),
    ("fd00::5", 9092, True),
    ("[fd00::5]", 9092, True),
    ("fd00::5", 9093, False),
    ("2001:db8::1", 80, True),
    ("169.254.169.254", 80, False),
    ("localhost", 9092, False),
]


@pytest.mark.parametrize(("host", "port", "expected"), CASES)
def test_an_address_is_allowed_by_a_rule_or_not_at_all(
    host: str, port: int, expected: bool
) -> None:
    assert is_allowed(host, port, environ={VARIABLE: ALLOWED}) is expected


@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "[fe80::1]", "fe80::1%eth0", "::ffff:169.254.1.1", "168.63.129.16"),
        # AWS, also the credentials of pods; Google; Oracle; Scaleway.
        *("fd00:ec2::254", "[fd00:ec2::23]", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42"),
    ],
)
@pytest.mark.parametrize("rules", ["", "*", "0.0.0.0/0,::/0"])
def test_metadata_and_link_local_addresses_are_never_allowed(host: str, rules: str) -> None:
    assert not is_allowed(host, 9092, environ={VARIABLE: rules})
    with pytest.raises(KafkaUnavailable, match="metadata"):
        check(host, 9092, environ={VARIABLE: rules})


def test_nor_is_a_name_that_leads_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, ("169.254.169.254", 9092))]
    monkeypatch.setattr(sockets, "resolve", lambda *_: found)
    facts = connection_facts(ClusterSpec(alias="east", bootstrap_servers="east.example:9092"))
    connection = BrokerConnection(facts, "east.example", 9092, client_id="test")
    with pytest.raises(KafkaUnavailable, match="metadata service") as caught:
        connection.connect(time.monotonic() + 5)
    assert caught.value.code == "egress_denied"


@pytest.mark.parametrize(
    "host", ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "fd20:ce::254"]
)
def test_a_token_endpoint_never_leads_to_one(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_LOGIN", "secret")
    connected: list[str] = []
    monkeypatch.setattr(
        socket, "create_connection", lambda address, **_: connected.append(address[0])
    )
    shown = f"[{host}]" if ":" in host else host
    spec = ClusterSpec(
        alias="east",
        bootstrap_servers="east:9092",
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_username="client",
        sasl_password="env:KAFKA_LOGIN",
        properties={ENDPOINT: f"https://{shown}/token"},
    )
    with pytest.raises(KafkaUnavailable, match="metadata"):
        fetch_token(spec, deadline_s=5)
    assert not connected


def test_without_a_list_everything_is_allowed() -> None:
    assert is_allowed("anywhere.example", 1, environ={})
    assert is_allowed("anywhere.example", 1, environ={VARIABLE: " , "})


@pytest.mark.parametrize("rule", ["host:port", "host:1-x", "10.0.0.0/99:1", ":9092", "[::1:9092"])
def test_a_rule_that_cannot_be_read_allows_nothing(rule: str) -> None:
    assert not is_allowed("host", 9092, environ={VARIABLE: rule})
    assert not is_allowed("::1", 9092, environ={VARIABLE: rule})


def test_the_refusal_says_who_can_change_it() -> None:
    with pytest.raises(KafkaUnavailable, match="not allowed by this deployment") as caught:
        check("evil.example", 9092, environ={VARIABLE: ALLOWED})
    assert caught.value.code == "egress_denied"
    assert "evil.example:9092" in caught.value.message

"""librdkafka's connections follow the same rules as every other connection to Kafka."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import ipaddress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.security import cleartext_logins, egress, librdkafka_egress
from mirrors.kafka.security.ip_addresses import is_forbidden
from tests.wire.sides import Side, unique

HOSTS = ("broker-1", "b1.kafka.internal", "10.1.2.3", "10.2.0.1", "fd00::5", "127.0.0.1", "::1")
RULES = (
    *("*.kafka.internal:9092", "10.1.0.0/16:9093-9099", "broker-1", "BROKER-?", "[fd00::/8]:9092"),
    *("2001:db8::1", "*", "*:9093", "10.0.0.0/99:1", "host:1-x", ":9092", "[::1:9092", "[!a]*"),
    *("0.0.0.0/0", "::/0:9092", "10.1.2.3:-5", "10.1.2.3:9093-", " ", "fd00::/8", "::1", "a[1"),
)


@functools.cache
def plugin() -> ctypes.CDLL:
    assert librdkafka_egress.build() == ""
    librdkafka_egress.find.cache_clear()
    found = librdkafka_egress.find()
    assert found is not None
    library = ctypes.CDLL(str(found))
    library.understudy_egress_allows.restype = ctypes.c_bool
    return library


def allows(host: str, port: int, rules: str, cleartext: str = "", exposed: bool = False) -> bool:
    where = f"{host}:{port}".encode()
    return plugin().understudy_egress_allows(where, rules.encode(), cleartext.encode(), exposed)


@settings(max_examples=300)
@given(
    st.sampled_from(HOSTS) | st.ip_addresses().map(str),
    st.sampled_from((9092, 9093, 9099, 1)),
    st.lists(st.sampled_from(RULES), max_size=3),
    st.lists(st.sampled_from(RULES), max_size=2),
    st.booleans(),
)
def test_the_plugin_decides_as_the_rules_in_python_do(
    host: str, port: int, rules: list[str], cleartext: list[str], exposed: bool
) -> None:
    texts = ",".join(rules), ",".join(cleartext)
    expected = egress.is_allowed(host, port, environ={egress.VARIABLE: texts[0]})
    if exposed:
        there = {cleartext_logins.VARIABLE: texts[1]}
        expected &= cleartext_logins.is_allowed(host, port, environ=there)
    assert allows(host, port, *texts, exposed) is expected


METADATA = [int(ipaddress.IPv4Address(ip)) for ip in ("169.254.169.254", "168.63.129.16")]
INNER = st.sampled_from(METADATA) | st.integers(0, 2**32 - 1)


@settings(max_examples=200)
@example(0, METADATA[0])
@given(st.integers(0, 6), INNER)
def test_it_finds_the_forbidden_address_inside_of_another_one(kind: int, inner: int) -> None:
    outer = (
        *(0, 0xFFFF << 32, 0x64FF9B << 96, 0x64FF9B0001 << 80),
        *(0x2002 << 112 | inner << 80, 0x20010000 << 96 | inner << 64, 0x20010000 << 96),
    )[kind]
    low = 0 if kind in (4, 5) else inner ^ 0xFFFFFFFF if kind == 6 else inner
    address = str(ipaddress.IPv6Address(outer | low))
    assert allows(address, 9092, "") is not is_forbidden(address)


@pytest.mark.parametrize(
    "address",
    ["fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42"],
)
def test_it_knows_metadata_services_with_addresses_of_their_own(address: str) -> None:
    assert is_forbidden(address)
    assert not allows(address, 9092, "*")
    assert allows(f"{address}7", 9092, "*") is not is_forbidden(f"{address}7")


def produced(bootstrap: str, topic: str) -> KafkaError | None:
    """The error of one record that a real producer sends."""
    spec = ClusterSpec(alias="east", bootstrap_servers=bootstrap)
    extra = {"message.timeout.ms": 3000}
    producer = Producer(client_config(spec, client_id="test", role="producer", extra=extra))
    errors: list[KafkaError | None] = []

    def note(error: KafkaError | None, message: Message) -> None:
        errors.append(error)

    producer.produce(topic, b"x", on_delivery=note)
    producer.flush(8)
    producer.close()
    return errors[0]


def test_librdkafka_does_not_connect_to_an_advertised_address_that_no_rule_allows(
    primary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin()
    with contextlib.closing(Side("one", primary)) as side:
        topic = unique("egress")
        side.make(topic)
    port = primary.rpartition(":")[2]
    # The broker advertises 127.0.0.1; only the name is allowed.
    monkeypatch.setenv(egress.VARIABLE, f"localhost:{port}")
    refused = produced(f"localhost:{port}", topic)
    assert refused is not None
    assert refused.code() == KafkaError._MSG_TIMED_OUT
    monkeypatch.setenv(egress.VARIABLE, f"localhost:{port},127.0.0.0/8:{port}")
    assert produced(f"localhost:{port}", topic) is None


def test_a_failed_build_leaves_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "no C compiler" in librdkafka_egress.build(tmp_path)
    monkeypatch.setenv("CC", "false")
    librdkafka_egress.build(tmp_path)
    assert list(tmp_path.iterdir()) == []

"""An address whose TLS or login fails is treated like a refused one: the next one is used."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Iterator

import pytest

from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.kafka.protocol.addresses import ADDRESS_HISTORY
from tests.kafka.test_dead_addresses import CONVERSATIONS, Conversation
from tests.security.connection_attempts import ask
from tests.security.secured import SecuredBroker

# The good listener, its mechanism, and listeners that refuse those who are right there.
WRONG = [
    ("TLS", "", ["EXPIRED", "ELSEWHERE", "UNKNOWNCA", "PLAINTEXT", "LOGINTLS", "MTLS"]),
    ("LOGINTLS", "SCRAM-SHA-512", ["EXPIRED", "TLS", "LOGIN"]),
    ("LOGIN", "SCRAM-SHA-256", ["PLAINONLY", "TLS", "PLAINTEXT"]),
    ("LOGIN", "OAUTHBEARER", ["PLAINONLY", "PLAINTEXT"]),
]
CASES = [(good, how, wrong) for good, how, listeners in WRONG for wrong in listeners]
# All conversations: one case for each way to fail in every run, the others in long ones.
OFTEN = {("TLS", "EXPIRED"), ("TLS", "PLAINTEXT"), ("LOGINTLS", "TLS"), ("LOGIN", "PLAINONLY")}
CONVERSED = [
    pytest.param(*case, marks=[] if (case[0], case[2]) in OFTEN else [pytest.mark.soak])
    for case in CASES
    if case[1] != "OAUTHBEARER"
]


@pytest.fixture(autouse=True)
def no_memory() -> Iterator[None]:
    ADDRESS_HISTORY.clear()
    yield
    ADDRESS_HISTORY.clear()


@pytest.fixture(scope="module")
def topic(secured: SecuredBroker) -> str:
    name = f"dead-{uuid.uuid4().hex[:10]}"
    with Admin(secured.spec("PLAINTEXT")) as admin:
        new = NewTopicSpec(name=name, partitions=1, replication_factor=1)
        admin.create_topics([new]).raise_first()
    return name


def half_wrong(secured: SecuredBroker, good: str, mechanism: str, wrong: str) -> ClusterSpec:
    spec = secured.spec(good, mechanism)
    servers = f"{secured.address(wrong)},{spec.bootstrap_servers}"
    return dataclasses.replace(spec, bootstrap_servers=servers)


@pytest.mark.parametrize(("good", "mechanism", "wrong"), CONVERSED)
def test_each_conversation_goes_on_at_the_next_address(
    secured: SecuredBroker, topic: str, good: str, mechanism: str, wrong: str
) -> None:
    spec = half_wrong(secured, good, mechanism, wrong)
    failed = {}
    for conversation in CONVERSATIONS:
        ADDRESS_HISTORY.clear()
        began = time.monotonic()
        if problem := _failure(conversation, spec, topic):
            failed[conversation.__name__] = problem
        elif (took := time.monotonic() - began) > 9:
            failed[conversation.__name__] = f"it took {took:.1f} s"
    assert failed == {}


def _failure(conversation: Conversation, spec: ClusterSpec, topic: str) -> str:
    try:
        conversation(spec, topic)
    except Exception as error:  # noqa: BLE001 - all of them are reported together
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize(("good", "mechanism", "wrong"), CASES)
def test_a_connection_test_warns_of_that_address(
    secured: SecuredBroker, good: str, mechanism: str, wrong: str
) -> None:
    report = ask(half_wrong(secured, good, mechanism, wrong))
    assert report.reachable, report.message
    assert [one.reachable for one in report.addresses] == [False, True]
    assert secured.address(wrong) in report.warnings[0]
    assert "use the others" in report.warnings[0]

"""Real brokers: they start, are killed, and restart; a failed start is explained in a sentence."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from controlplane.demo.errors import DemoError
from controlplane.demo.kafka import broker as kafka
from controlplane.demo.kafka.broker import KafkaBroker, Listener, PortTaken
from controlplane.demo.kafka.cluster import KafkaCluster
from controlplane.demo.processes import exit_reasons
from controlplane.demo.processes.guard import Guard
from controlplane.demo.processes.ports import HOST, free_port
from controlplane.demo.verification.topics import partition_counts
from tests.journeys.refusals import refused_by

QUICK = ("-XX:TieredStopAtLevel=1",)
SECRETS = {"DATABASE_URL": "postgresql://u:pw@h/d", "SOME_TOKEN": "pw"}


@pytest.fixture(scope="module")
def secrets_around() -> Iterator[None]:
    """Secrets in the environment of the process that starts a broker."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, guard: Guard, secrets_around: None
) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(
        tmp_path_factory.mktemp("one"),
        name="one",
        jvm=QUICK,
        environment=guard.environment,
        listeners=[Listener(name="SECURE", protocol="SASL_PLAINTEXT")],
        properties={
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secure.plain.sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                'user_ann="secret";'
            ),
        },
    )
    try:
        yield broker.start()
    finally:
        broker.kill()


def create(
    bootstrap: str, topic: str, replicas: int = 1, configs: dict[str, str] | None = None
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, 1, replicas, config=configs or {})
    for future in admin.create_topics([new]).values():
        future.result(30)


def write(bootstrap: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def read(bootstrap: str, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        message = consumer.poll(20)
        return None if message is None else message.value()
    finally:
        consumer.close()


def test_a_killed_broker_comes_back_on_its_ports_with_its_data(broker: KafkaBroker) -> None:
    topic, before = f"kept-{secrets.token_hex(4)}", broker.bootstrap
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, b"still here")
    broker.kill()
    assert not broker.alive
    broker.restart()
    assert broker.bootstrap == before
    assert read(broker.bootstrap, topic) == b"still here"


def test_a_broker_inherits_no_secret(broker: KafkaBroker) -> None:
    assert broker.process is not None
    names = set(psutil.Process(broker.process.pid).environ())
    assert names
    assert not names & set(SECRETS)


def test_what_a_broker_refused_is_read_from_its_log(broker: KafkaBroker) -> None:
    topic = f"kept-{secrets.token_hex(4)}"
    create(broker.bootstrap, topic, configs={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    before = refused_by(broker.log)
    producer.produce(topic, b"for no key")
    assert producer.flush(30) == 0
    [refusal] = set(refused_by(broker.log)) - set(before)
    assert topic in refusal
    assert "InvalidRecordException" in refusal


def test_a_caller_may_add_a_listener_that_demands_a_password(broker: KafkaBroker) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap_of("SECURE"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": "secret",
    }
    assert partition_counts(settings) == partition_counts(broker.bootstrap)


def test_a_wanted_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server((HOST, free_port())) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=f"Port {port} for Kafka two is taken by another"):
            KafkaBroker(tmp_path, name="two", port=port).start()


def test_an_interrupted_formatting_is_done_anew_and_a_port_taken_meanwhile_is_chosen_again(
    tmp_path: Path, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("half")
    (tmp_path / "formatting").touch()
    with socket.create_server((HOST, free_port())) as other:
        taken = other.getsockname()[1]
        choices = iter([taken, free_port(), free_port(), free_port()])
        monkeypatch.setattr(kafka, "free_port", lambda: next(choices))
        broker = KafkaBroker(tmp_path, jvm=QUICK, environment=guard.environment)
        try:
            broker.start()
            assert broker.port != taken
            assert not (tmp_path / "formatting").exists()
        finally:
            broker.kill()


def test_three_brokers_form_a_cluster_that_survives_one(tmp_path: Path, guard: Guard) -> None:
    cluster = KafkaCluster(
        tmp_path, brokers=3, heap="256m", jvm=QUICK, environment=guard.environment
    )
    try:
        cluster.start()
        create(cluster.bootstrap, "three", replicas=3)
        write(cluster.bootstrap, "three", b"one")
        cluster.brokers[0].kill()
        assert read(cluster.bootstrap, "three") == b"one"
    finally:
        cluster.kill()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("x\njava.io.IOException: No space left on device\n at y", "disk is full"),
        ("java.net.BindException: Address already in use", "Port 7 for k is taken"),
        ("There is insufficient memory for the Java Runtime Environment", "got no memory"),
        ("a\nERROR b\nCaused by: java.lang.Oops: c\n at d", "died: Caused by: java.lang"),
        ("", "it said nothing"),
    ],
)
def test_why_a_broker_died_is_one_sentence(said: str, words: str) -> None:
    fault = exit_reasons.explain(said, name="k", port=7, log=Path("d/log"))
    assert isinstance(fault, DemoError)
    assert words in fault.message
    assert "\n" not in fault.message

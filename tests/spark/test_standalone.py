"""Flows on a real Spark cluster: our package is sent along, secrets are resolved by executors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from controlplane.demo.guard import Guard
from controlplane.demo.kafka import KafkaBroker, Listener
from controlplane.demo.ports import free_port
from tests.spark.conftest import MakeLab
from tests.spark.lab import Lab
from tests.spark.reading import records
from tests.spark.standalone import standalone_cluster

PASSWORD = "a-password-that-only-executors-know"
VARIABLE = "UNDERSTUDY_TEST_STANDALONE_PASSWORD"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture
def guarded_target(tmp_path: Path, guard: Guard) -> Iterator[KafkaBroker]:
    """A broker whose second listener demands a login."""
    prefix = "listener.name.login"
    jaas = f'{PLAIN} required username="u" password="{PASSWORD}" user_u="{PASSWORD}";'
    broker = KafkaBroker(
        tmp_path / "guarded",
        name="guarded",
        heap="512m",
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
        listeners=[Listener(name="LOGIN", protocol="SASL_PLAINTEXT", port=free_port())],
        properties={
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
            f"{prefix}.plain.sasl.jaas.config": jaas,
        },
    )
    broker.start()
    yield broker
    broker.kill()


def test_a_flow_runs_on_a_master_and_two_workers_and_survives_the_loss_of_an_executor(
    make_lab: MakeLab, guarded_target: KafkaBroker, tmp_path: Path, guard: Guard
) -> None:
    env = {**os.environ, **guard.environment, VARIABLE: PASSWORD, "SPARK_LOCAL_IP": "127.0.0.1"}
    # Executors find our package in what the runner sends, not in a path of this checkout.
    env.pop("PYTHONPATH", None)
    with standalone_cluster(tmp_path / "cluster", env) as cluster:
        lab = make_lab()
        lab.env = env
        lab.start_runner(cluster.master)
        flow = lab.flow(tasks_max="4")
        flow.job.target.__dict__.update(
            bootstrap_servers=guarded_target.bootstrap_of("LOGIN"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username="u",
            sasl_password=f"env:{VARIABLE}",
        )
        topic = lab.create(flow.topic("t"), 8)
        for partition in range(8):
            lab.write(topic, range(200), partition)
        flow.start().wait_in_sync(topic, seconds=120)
        _same(lab, guarded_target, topic, flow.remote(topic))
        _nothing_secret_is_shown(lab)

        cluster.executors()[0].kill()
        for partition in range(8):
            lab.write(topic, range(200, 400), partition)
        flow.wait_in_sync(topic, seconds=120)
        _same(lab, guarded_target, topic, flow.remote(topic))
        flow.stop()


def _same(lab: Lab, target: KafkaBroker, topic: str, remote: str) -> None:
    assert AdminClient({"bootstrap.servers": target.bootstrap}).list_topics(timeout=10)
    assert records(target.bootstrap, remote) == lab.read(topic)


def _nothing_secret_is_shown(lab: Lab) -> None:
    runner = psutil.Process(lab.process.pid)
    for process in (runner, *runner.children(recursive=True)):
        if process.status() != psutil.STATUS_ZOMBIE:
            assert PASSWORD not in " ".join(process.cmdline())
    for path in lab.directory.rglob("*"):
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes(), path

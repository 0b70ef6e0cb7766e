"""MirrorMaker 2's own classes read an exported file and understand what the flows mean."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from controlplane.bench.systems.mirror_maker import MIRROR
from controlplane.demo.kafka.jars import kafka_jars
from controlplane.demo.processes.java import find_java
from mirrors.domain.migration.export import write_mm2
from mirrors.domain.specs import FlowSpec
from tests.domain.cases import cluster

PROBE = Path(__file__).parent / "java" / "ReadMm2.java"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    directory = tmp_path_factory.mktemp("mm2")
    (directory / "pw").write_text("from-a-directory")
    source = cluster(
        "us.east",
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username='mm"2\\x',
        sasl_password="env:KAFKA_PW",
        ssl_ca=f"file:{directory}/pw",
        properties={"request.timeout.ms": "9000"},
    )
    target = cluster("backup", properties={})
    spec = FlowSpec.build(
        source=source,
        target=target,
        properties={
            "topics": r"orders\..*, pay",
            "replication.policy.class": "IdentityReplicationPolicy",
            "replication.factor": "1",
            "consumer.isolation.level": "read_committed",
            "producer.linger.ms": "7",
            "tasks.max": "3",
        },
    )
    path = directory / "mm2.properties"
    path.write_text(write_mm2([spec]))
    jars = kafka_jars(jars=MIRROR)
    done = subprocess.run(
        [
            find_java(),
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            f"{jars}/*",
            str(PROBE),
            str(path),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        env={"KAFKA_PW": "from-the-environment"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_no_connector_finds_an_error_in_it(said: list[str]) -> None:
    assert [line for line in said if line.startswith("error ")] == []


def test_the_flow_s_settings_reach_its_connector_and_its_worker(said: list[str]) -> None:
    flow = "us.east->backup"
    for fact in (
        r"connector {} topics=orders\..*, pay",
        "connector {} enabled=true",
        "connector {} tasks.max=3",
        "connector {} source.consumer.isolation.level=read_committed",
        "connector {} producer.override.linger.ms=7",
        "connector {} source.admin.request.timeout.ms=9000",
        "connector {} replication.policy.class="
        "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "worker {} exactly.once.source.support=enabled",
        "worker {} bootstrap.servers=backup.example:9092",
    ):
        assert fact.format(flow) in said


def test_references_stay_references_until_mm2_connects(said: list[str]) -> None:
    jaas = next(line for line in said if "source.cluster.sasl.jaas.config=" in line)
    assert jaas.endswith('username="mm\\"2\\\\x" password="${env:KAFKA_PW}";')
    assert any(line.endswith("source.cluster.ssl.truststore.type=PEM") for line in said)
    # What MM2 needs for its worker on that cluster is resolved by the providers that we name.
    back = [line for line in said if line.startswith("worker backup->us.east ")]
    assert any('password="from-the-environment"' in line for line in back)
    assert any("ssl.truststore.certificates=from-a-directory" in line for line in back)

"""The script of a plan against a real broker, with Kafka 4.3.1's own tools."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from controlplane.demo.kafka.class_data_archive import archive_path
from controlplane.demo.kafka.jars import VERSION, JarSet, kafka_jars
from controlplane.demo.processes.java import find_java, plain_environment
from mirrors.domain.failover.runbook.commands import commands
from mirrors.domain.failover.script import failover_script
from mirrors.kafka.admin.groups import GroupOffset, read_offsets, write_offsets
from spark_runner.kafka_protocol.records import Record
from tests.security.secured import SecuredBroker
from tests.wire.world import Side, unique

TOOLS = JarSet(
    name=f"tools-{VERSION}",
    title=f"Kafka's tools {VERSION}",
    modules=(("org.apache.kafka", "kafka-tools", VERSION),),
    checksums=Path(__file__).with_name(f"tools-{VERSION}.sha256"),
    alone=True,
)
MAINS = {
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
}
HOSTILE = '--execute it\'s $(touch HERE) `x` "q" \\ a=b,c grüße 漢字\n'


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory like the `bin` of Kafka's distribution, with what the script calls."""
    made = tmp_path_factory.mktemp("bin")
    # The brokers' archive of classes needs the brokers' jars first.
    jars = f"{kafka_jars()}/*:{kafka_jars(jars=TOOLS)}/*"
    quick = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:SharedArchiveFile={archive_path()}"
    for name, main in MAINS.items():
        path = made / name
        java = f"{find_java()} {quick} -Dlog4j2.level=OFF -cp '{jars}'"
        path.write_text(f'#!/bin/sh\nexec {java} {main} "$@"\n')
        path.chmod(0o755)
    return made


@pytest.fixture
def side(secured: SecuredBroker) -> Iterator[Side]:
    one = Side("one", secured.broker.bootstrap)
    yield one
    one.close()


def denials(topic: str) -> AclBindingFilter:
    deny, literal = AclPermissionType.DENY, ResourcePatternType.LITERAL
    return AclBindingFilter(ResourceType.TOPIC, topic, literal, None, None, AclOperation.ANY, deny)


def standing(side: Side, group: str, topic: str) -> dict[tuple[str, int], int]:
    found = read_offsets(side.spec, {group: [(topic, 0), (topic, 1)]}).raise_first()
    stands = found.done[group].raise_first().done
    return {tp: at.offset for tp, at in stands.items()}


def pasted(text: str, tools: Path, directory: Path) -> None:
    """As a person does who has Kafka's tools in the path."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        cwd=directory,
        env={**plain_environment(), "PATH": f"{tools}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_groups_stand_where_the_plan_says_and_the_source_is_fenced(
    tools: Path, side: Side, tmp_path: Path
) -> None:
    topic, group = unique("script"), f"{unique('app')} {HOSTILE}"
    side.make(topic, 2)
    for partition in (0, 1):
        side.write(topic, partition, [Record(0, 1, b"k", b"v")] * 20)
    write_offsets(side.spec, group, {(topic, 0): GroupOffset(1)}).raise_first()
    bootstrap = side.spec.bootstrap_servers
    row: dict[str, Any] = {"group": group, "topic": topic, "remote_topic": topic, "reason": ""}
    plan = {
        "flow": "primary->backup",
        "digest": "d",
        "taken_at": 0,
        "places": [
            {**row, "partition": 0, "downstream_offset": 7},
            {**row, "partition": 1, "downstream_offset": 20},
        ],
        "partitions": [{"topic": topic, "remote_topic": topic, "partition": 0}],
        "blockers": [],
        "warnings": [],
        "clients": [],
    }
    text = failover_script(plan, title="", source_bootstrap=bootstrap, target_bootstrap=bootstrap)
    path = tmp_path / "failover.sh"
    path.write_text(text, encoding="utf-8")

    def run(act: str) -> subprocess.CompletedProcess[str]:
        environment = {**plain_environment(), "PATH": os.environ["PATH"], "KAFKA_BIN": str(tools)}
        return subprocess.run(
            ["bash", path, act],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            cwd=tmp_path,
            env=environment,
        )

    done = run("groups")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "has its offsets in 2 partitions" in done.stdout
    assert standing(side, group, topic) == {(topic, 0): 7, (topic, 1): 20}
    # And what the page of a run shows for one step, pasted into a shell.
    for row in plan["places"]:
        row["downstream_offset"] -= 2
    shown = commands(source=bootstrap, target=bootstrap, checkpoints="c", plan=plan)
    pasted(shown["reset_groups"], tools, tmp_path)
    assert standing(side, group, topic) == {(topic, 0): 5, (topic, 1): 18}
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        done = run("fence")
        assert done.returncode == 0, done.stdout + done.stderr
        (rule,) = admin.describe_acls(denials(topic)).result(20)
        assert (rule.principal, rule.operation) == ("User:*", AclOperation.WRITE)
    finally:
        for future in admin.delete_acls([denials(topic)]).values():
            future.result(20)
        admin.delete_consumer_groups([group])[group].result(20)
    assert not (tmp_path / "HERE").exists()

"""What docs/operations grants is enough to replicate, and a failback by its commands works."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shlex
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from mirrors.domain.specs import ClusterSpec
from mirrors.domain.sync.schedule import SyncTaskContext
from mirrors.kafka.admin.topics import Admin
from mirrors.models import HeartbeatState
from mirrors.services import clusters
from mirrors.services.flows import settings
from mirrors.services.heartbeats import emitter
from mirrors.services.topics import configs
from tests.security.secured import LIMITED, SecuredBroker
from tests.security.test_authorization import rule_filter
from tests.spark.lab import Flow, Lab, wait_for

# Of the whole module: tests with a database come first, and the flow is made once.
pytestmark = pytest.mark.django_db
PAGES = Path(__file__).resolve().parents[2] / "docs" / "operations"
POSITIONS = "mm2-positions.primary.internal"
TOPIC = "orders"
KINDS = {
    "--topic": ResourceType.TOPIC,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
    "--group": ResourceType.GROUP,
}
OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Delete": AclOperation.DELETE,
    "Alter": AclOperation.ALTER,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "AlterConfigs": AclOperation.ALTER_CONFIGS,
}


def _commands() -> str:
    """All pages of operations: permissions, simulation, both directions."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(PAGES.rglob("*.md")))


def rules_of_the_page(side: str) -> list[AclBinding]:
    """The rules that the page's kafka-acls.sh lines would make for our limited principal."""
    rules = []
    command = rf"^kafka-acls.sh --bootstrap-server {side} (.+)$"
    for line in re.findall(command, _commands(), re.MULTILINE):
        words = shlex.split(line)
        values = dict(itertools.pairwise(words))
        option = next(option for option in KINDS if option in values)
        kind, name = KINDS[option], values[option]
        pattern = values.get("--resource-pattern-type", "literal").upper()
        rules += [
            AclBinding(
                kind,
                name,
                ResourcePatternType[pattern],
                f"User:{LIMITED}",
                "*",
                OPERATIONS[after],
                AclPermissionType.ALLOW,
            )
            for word, after in itertools.pairwise(words)
            if word == "--operation"
        ]
    return rules


@pytest.fixture(scope="module")
def flow(secured_lab: Lab, secured_pair: tuple[SecuredBroker, SecuredBroker]) -> Iterator[Flow]:
    """A running flow of a principal that may do on both sides what the page says, no more."""
    (source, target), lab = secured_pair, secured_lab
    rules = {lab.on_source: rules_of_the_page("SOURCE"), lab.on_target: rules_of_the_page("TARGET")}
    for admin, made in rules.items():
        for future in admin.create_acls(made).values():
            future.result(20)
    lab.create(TOPIC, partitions=2)
    lab.write(TOPIC, range(5))
    flow = lab.flow(topics=TOPIC, heartbeats_replication_enabled="true")
    specs = {"source": limited(source, "primary"), "target": limited(target, "backup")}
    flow.job = dataclasses.replace(flow.job, name="primary->backup", **specs)
    try:
        yield flow.start()
    finally:
        flow.stop()
        for admin, made in rules.items():
            for future in admin.delete_acls([rule_filter(rule) for rule in made]).values():
                future.result(20)


def limited(broker: SecuredBroker, alias: str) -> ClusterSpec:
    login = {"sasl_username": LIMITED, "sasl_password": "env:KAFKA_TEST_LIMITED"}
    return broker.spec("LOGIN", "PLAIN", alias=alias, **login)


def values(flow: Flow) -> list[bytes | None]:
    return [row[1] for row in flow.lab.read(flow.remote(TOPIC), target=True)[0]]


def test_the_rights_of_the_page_are_enough_to_create_copy_grow_and_keep_positions(
    flow: Flow,
) -> None:
    flow.wait_in_sync(TOPIC, seconds=60)
    flow.lab.grow(TOPIC, 3)
    flow.lab.write(TOPIC, ["later"], partition=2)
    flow.wait_in_sync(TOPIC, seconds=60)
    # A topic is in sync once all its partitions are; that the grown one is, is said a tick later.
    flow.wait(
        lambda status: (
            status.state == "running"
            and [row.state for row in status.partitions if row.topic == TOPIC] == ["in_sync"] * 3
            and {row.topic: row.state for row in status.topics if row.state != "skipped"}.items()
            <= {TOPIC: "in_sync", "heartbeats": "in_sync"}.items()
        )
    )
    assert values(flow) == [b"0", b"1", b"2", b"3", b"4"]
    status = flow.status()
    assert status is not None
    assert [words for words in status.warnings if "MirrorMaker" in words] == [], "it may be seen"
    # It is written every few seconds, and not with each commit.
    wait_for(
        lambda: any(flow.lab.read("mm2-offsets.primary.internal", target=True).values()),
        seconds=20,
        what="MM2's copy of the positions",
        pause=0.5,
    )


def test_the_rights_of_the_page_are_enough_for_heartbeats_and_settings(
    flow: Flow, secured_pair: tuple[SecuredBroker, SecuredBroker]
) -> None:
    pair = [
        clusters.create_cluster(spec=limited(side, alias), who="tester")
        for side, alias in zip(secured_pair, ("primary", "backup"), strict=True)
    ]
    properties = {"topics": TOPIC, "emit.heartbeats.interval.seconds": "1"}
    row = settings.create_flow(source=pair[0], target=pair[1], properties=properties, who="tester")
    state = HeartbeatState(flow=row)
    until = time.monotonic() + 60
    while state.latency_ms is None:
        assert time.monotonic() < until, f"no heartbeat came through: {state.error}"
        HeartbeatState.objects.update(as_of=None)  # watch at every turn
        emitter.emit_heartbeats(now=datetime.now(tz=UTC))
        state = HeartbeatState.objects.get(flow=row)
        assert (state.place, state.error) == ("source", "")
        time.sleep(0.2)
    emitter.OPEN.close()
    changes = {"retention.ms": "1234567"}
    with Admin(ClusterSpec(alias="x", bootstrap_servers=flow.lab.source)) as admin:
        admin.alter_configs({TOPIC: changes}).raise_first()
    context = SyncTaskContext(flow_id=row.pk, spec=row.spec, now=0, deadline_s=20)
    # The broker answers a change before it shows it.
    until = time.monotonic() + 10
    while not (done := configs.sync_configs(context)).counts["changed"]:
        assert time.monotonic() < until, done
    assert done.counts["failed"] == 0, done.reasons


def test_a_position_written_by_hand_takes_a_partition_back(flow: Flow) -> None:
    flow.wait_in_sync(TOPIC, seconds=60)
    flow.stop()
    place = f'"topic":"{TOPIC}","partition":0'.encode()
    kept = [row for row in flow.lab.read(POSITIONS, target=True)[0] if place in row[0]]
    key, value = kept[-1][:2]
    again = {**json.loads(value), "position": 3}
    producer = Producer({"bootstrap.servers": flow.lab.target, "acks": "all"})
    producer.produce(POSITIONS, json.dumps(again, separators=(",", ":")), key)
    assert producer.flush(30) == 0
    flow.restart()
    flow.wait_in_sync(TOPIC, seconds=60)
    assert values(flow) == [b"0", b"1", b"2", b"3", b"4", b"3", b"4"]

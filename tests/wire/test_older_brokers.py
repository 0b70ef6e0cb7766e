"""Real brokers of an older Kafka, beside the newest: 4.0, which takes records by name alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.demo.guard import Guard
from controlplane.demo.jars import JarSet
from controlplane.demo.kafka import KafkaBroker
from tests.spark.lab import Lab
from tests.wire.independent import compare
from tests.wire.running import PARTITIONS, Running
from tests.wire.world import Flow, Side, soon, unique

# Their jars are fetched for these tests alone.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

OLDER = JarSet(
    name="kafka-4.0.2",
    title="Kafka 4.0.2",
    modules=(
        ("org.apache.kafka", "kafka_2.13", "4.0.2"),
        ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    ),
    checksums=Path(__file__).with_name("kafka-4.0.2.sha256"),
)
PRODUCE, FETCH = 0, 1
WAYS = ["up", "down", "within"]


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(
        tmp_path_factory.mktemp("older"),
        name="older",
        heap="512m",
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
        jars=OLDER,
    )
    try:
        yield broker.start()
    finally:
        broker.kill()


def sides(way: str, older: KafkaBroker, newest: str) -> tuple[str, str]:
    """From the older to the newest, the other way round, or between older ones."""
    return {
        "up": (older.bootstrap, newest),
        "down": (newest, older.bootstrap),
        "within": (older.bootstrap, older.bootstrap),
    }[way]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("way", WAYS)
def test_live_traffic_crosses_as_it_is(
    older: KafkaBroker, primary: str, way: str, delivery: str
) -> None:
    above, below = sides(way, older, primary)
    source, target = Side("one", above), Side("two", below)
    topic = unique("older")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="100", delivery=delivery)
    remote = flow.add(topic)
    with Running(flow, topic) as running:
        running.write(20)
        running.caught_up()
    # Once more, as the next epoch goes on where this one ended.
    with Running(flow, topic) as running:
        running.write(5)
        running.caught_up()
    compare(flow, topic, remote)
    if way != "up":
        (node,) = target.client.brokers
        link = target.client.link(node, "look", soon())
        assert link.versions[PRODUCE][1] < 13, "these brokers know topics by id"
        assert link.versions[FETCH][1] >= 13


@pytest.mark.parametrize("way", WAYS)
def test_a_runner_makes_the_topic_copies_and_goes_on_after_a_restart(
    older: KafkaBroker, primary: str, way: str, tmp_path: Path, guard: Guard
) -> None:
    lab = Lab(*sides(way, older, primary), tmp_path / "runner", {**os.environ, **guard.environment})
    lab.start_runner()
    try:
        flow = lab.flow()
        topic = lab.create(flow.topic("whole"), 2)
        lab.write(topic, range(50))
        flow.start().wait_in_sync(topic)
        flow.restart()
        lab.write(topic, range(50, 80))
        lab.write(topic, range(20), 1)
        flow.wait_copied({(topic, 0): 80, (topic, 1): 20})
        assert lab.read(flow.remote(topic), target=True) == lab.read(topic)
        flow.stop()
    finally:
        lab.stop_runner()

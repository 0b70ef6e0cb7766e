"""Real brokers of Kafka 4.4, 4.0, 3.9, and 2.8 with ZooKeeper, together with 4.3.

Before 4.1 they identify topics by name in Produce; 2.8 does so in Fetch as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.bench.distance.relay import build
from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from spark_runner.engine.batches.header_scan import OLD_FORMAT
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import Record
from spark_runner.kafka_protocol.request_header import FETCH, PRODUCE
from tests.spark.lab import Lab
from tests.wire.far import ConnectionFaults, far_away
from tests.wire.independent import compare
from tests.wire.older import ZooKeeperCluster, broker_of
from tests.wire.running import NOW, PARTITIONS, Running
from tests.wire.world import Flow, Side, soon, unique

# Their jars are fetched for these tests alone.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

WAYS = ["up", "down", "within"]
# The newest Produce and Fetch that each speaks.
NEWEST = {"4.4.0": (13, 18), "4.0.2": (12, 17), "3.9.2": (11, 17), "2.8.2": (9, 12)}


@pytest.fixture(scope="module", params=NEWEST)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def older(
    version: str, tmp_path_factory: pytest.TempPathFactory, guard: Guard
) -> Iterator[KafkaBroker | ZooKeeperCluster]:
    directory = tmp_path_factory.mktemp("older")
    broker = broker_of(version, directory, guard.environment)
    try:
        yield broker.start()
    finally:
        broker.kill()


def sides(way: str, older: KafkaBroker | ZooKeeperCluster, newest: str) -> tuple[str, str]:
    """From the older to the newest, the other way round, or between older ones."""
    return {
        "up": (older.bootstrap, newest),
        "down": (newest, older.bootstrap),
        "within": (older.bootstrap, older.bootstrap),
    }[way]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("way", WAYS)
def test_live_traffic_crosses_as_it_is(
    version: str, older: KafkaBroker | ZooKeeperCluster, primary: str, way: str, delivery: str
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
    for side in {"up": [source], "down": [target], "within": [source, target]}[way]:
        (node,) = side.client.brokers
        speaks = side.client.connection(node, "look", soon()).versions
        assert tuple(speaks[key][1] for key in (PRODUCE, FETCH)) == NEWEST[version]


@pytest.mark.parametrize("way", WAYS)
def test_a_distance_is_crossed_exactly_once_while_connections_break(
    older: KafkaBroker | ZooKeeperCluster,
    primary: str,
    way: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    above, below = sides(way, older, primary)
    source, target = Side("one", above), Side("two", below)
    topic = unique("far")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="200")
    remote = flow.add(topic)
    with (
        far_away(build(tmp_path), (above, below), monkeypatch) as relays,
        Running(flow, topic) as running,
    ):
        running.write(200, pause=0)
        with ConnectionFaults(relays, 7, every_s=1.0) as trouble:
            running.write(200, pause=0.005)
            running.caught_up(90)
    assert trouble.cuts > 0
    compare(flow, topic, remote)


@pytest.mark.parametrize("version", ["2.8.2"], indirect=True)
@pytest.mark.parametrize(
    "codec", [compression.NONE, compression.GZIP, compression.SNAPPY, compression.LZ4]
)
@pytest.mark.parametrize("kept", ["0.9.0", "0.10.2"])
def test_what_a_broker_keeps_in_an_old_format_arrives_in_the_new_one(
    older: ZooKeeperCluster, primary: str, kept: str, codec: int
) -> None:
    source, target = Side("one", older.bootstrap), Side("two", primary)
    topic = unique("format")
    source.make(topic, message_format_version=kept)
    # The broker writes them down in its own format.
    rows = [Record(0, NOW, b"k%d" % at, b"v" * at * 100) for at in range(30)]
    for number in range(3):
        source.write(topic, 0, rows[number * 10 : number * 10 + 10], codec=codec)
    flow = Flow(source, target, commit_interval_ms="100")
    remote = flow.add(topic)
    _, driver = flow.copy()
    lanes = {lane.why for row in driver.figures for lane in row.lanes}
    assert OLD_FORMAT in lanes
    # Format 0 knows no time.
    at = -1 if kept == "0.9.0" else NOW
    copied = [(row.timestamp, row.key, row.value) for row in target.read(remote, 0)]
    assert copied == [(at, row.key, row.value) for row in rows]


@pytest.mark.parametrize("way", WAYS)
def test_a_runner_makes_the_topic_copies_and_goes_on_after_a_restart(
    older: KafkaBroker | ZooKeeperCluster, primary: str, way: str, tmp_path: Path, guard: Guard
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

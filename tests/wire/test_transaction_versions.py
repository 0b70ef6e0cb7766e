"""An upgraded cluster without new transactions: new messages, old rules.

Its brokers support Produce 13 and EndTxn 5, but `transaction.version` stays until an operator
raises it. Real brokers, formatted with each of the old levels.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane.demo.kafka import broker_commands
from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from spark_runner.engine.epoch import RawCopier
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import NOW
from tests.wire.test_chaos_search import one_round
from tests.wire.world import Flow, Side, bare, unique


@pytest.fixture(scope="module", params=[1, 0])
def older(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, guard: Guard
) -> Iterator[Side]:
    """The target, at that level of `transaction.version`."""
    broker = KafkaBroker(
        tmp_path_factory.mktemp("older"),
        name="older",
        heap="512m",
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
    )
    level = f"transaction.version={request.param}"
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                broker_commands,
                "_FORMAT",
                ("kafka.tools.StorageTool", "format", "--feature", level, "-t"),
            )
            broker.start()
        side = Side("older", broker.bootstrap)
        assert side.client.features.get("transaction.version", 0) == request.param
        yield side
        side.close()
    finally:
        broker.kill()


@pytest.mark.parametrize("newest", [13, 12, 11])
def test_commits_one_after_the_other_cross_once(source: Side, older: Side, newest: int) -> None:
    topic = unique("older")
    source.make(topic, 3)
    flow = Flow(source, older, commit_interval_ms="20")
    remote = flow.add(topic)
    for at in range(6):
        for partition in range(3):
            source.write(topic, partition, [Record(0, NOW, b"k", b"%d" % at)] * 3)
        result, _ = flow.copy(RawCopier(newest_produce=newest), seconds=30)
        assert result.ended_because == "stop", result
    for partition in range(3):
        assert bare(older.read(remote, partition)) == bare(source.read(topic, partition))


@pytest.mark.parametrize("seed", [12, 27])
def test_every_record_crosses_once_whatever_befalls(source: Side, older: Side, seed: int) -> None:
    seen = one_round(source, older, seed, epochs=6)
    assert seen["refused"], "nothing was tested"

"""Two flows that copy the same names in both directions."""

from __future__ import annotations

import itertools
import time

from mirrors.kafka.protocol.metadata import id_text
from spark_runner.ipc.messages import PartitionWork
from spark_runner.kafka_protocol.records import Record
from tests.wire.world import Flow, Side, unique

PARTITIONS = 2
NOW = int(time.time() * 1000)


class Pair:
    """A topic of the same name on both sides, and a flow in each direction."""

    def __init__(self, one: Side, two: Side) -> None:
        self.topic = unique("both")
        self.sides = {"one": one, "two": two}
        views = [side.make(self.topic, PARTITIONS) for side in (one, two)]
        self.flows = [
            Flow(source, target, skip_replicated="true", commit_interval_ms="50")
            for source, target in ((one, two), (two, one))
        ]
        for flow, (here, there) in zip(self.flows, (views, views[::-1]), strict=True):
            flow.rows = [
                PartitionWork(
                    topic=self.topic,
                    topic_id=id_text(here.topic_id),
                    partition=partition,
                    remote_topic=self.topic,
                    remote_topic_id=id_text(there.topic_id),
                    start=0,
                )
                for partition in range(PARTITIONS)
            ]

    def write(self, name: str, numbers: range) -> None:
        for number in numbers:
            row = Record(0, NOW, name.encode(), b"%d" % number)
            self.sides[name].write(self.topic, number % PARTITIONS, [row] * 3)

    def read(self, side: str) -> list[list[tuple[bytes | None, bytes | None]]]:
        return [
            [(row.key, row.value) for row in self.sides[side].read(self.topic, partition)]
            for partition in range(PARTITIONS)
        ]

    def check(self, written: int) -> None:
        """Both sides hold all of both, each origin's in the order it was written."""
        for side, partition in itertools.product(self.sides, range(PARTITIONS)):
            rows = self.read(side)[partition]
            for origin in self.sides:
                of_it = [int(value or b"") for key, value in rows if key == origin.encode()]
                wanted = [n for n in range(written) if n % PARTITIONS == partition]
                assert of_it == [n for n in wanted for _ in range(3)], (side, origin)
            assert len(rows) == 2 * 3 * written // PARTITIONS

    def copy(self) -> None:
        """One epoch of each flow, one after the other."""
        for flow in self.flows:
            result, _ = flow.copy()
            assert result.ended_because == "stop", result
            assert result.errors == ()

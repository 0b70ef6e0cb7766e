"""Copies in which a partition stops: set up, run until then, and asked for the error."""

from __future__ import annotations

import time

from spark_runner.lanes.raw import RawCopier
from spark_runner.lanes.record import RecordLane
from spark_runner.work import PartitionError, SliceResult
from tests.wire.world import Driver, Flow, Side, unique

NOW = int(time.time() * 1000)
BIG = b"v" * 15_000  # not to be merged with its neighbours
LANES = {"raw": RawCopier, "record": RecordLane}


def two_partitions(source: Side, target: Side, **remote: str) -> tuple[Flow, str, str]:
    topic = unique("stops")
    source.make(topic, 2, message_timestamp_after_max_ms=str(2**63 - 1))
    flow = Flow(source, target, commit_interval_ms="50")
    return flow, topic, flow.add(topic, **remote)


def stopped(flow: Flow, lane: str = "raw", *, errors: int = 1, seconds: float = 30) -> SliceResult:
    """Run until so many partitions have stopped and all the others are at their end."""
    ends = flow.ends()

    def done(driver: Driver) -> bool:
        found = {(error.topic, error.partition) for row in driver.figures for error in row.errors}
        rest = ends.keys() - found
        return len(found) >= errors and all(
            driver.position(*place) >= ends[place] for place in rest
        )

    return LANES[lane]().run(flow.work(seconds=seconds), Driver(until=done))  # type: ignore[arg-type, no-any-return]


def only_error(result: SliceResult) -> PartitionError:
    assert result.ended_because == "stop", result
    assert len(result.errors) == 1
    return result.errors[0]

"""Flows in which a partition stops: setup, run until then, and its error."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from mirrors.kafka.error_codes import Code
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.record_lane.epoch import RecordLane
from spark_runner.engine.target.in_flight import BatchesInFlight
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.ipc.messages import PartitionError, SliceResult
from spark_runner.kafka_protocol.produce import ProduceResult
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
    """Run until `errors` partitions have stopped and all others are at their end."""
    ends = flow.ends()

    def done(driver: Driver) -> bool:
        found = {(error.topic, error.partition) for row in driver.figures for error in row.errors}
        rest = ends.keys() - found
        return len(found) >= errors and all(driver.position(*tp) >= ends[tp] for tp in rest)

    return LANES[lane]().run(flow.work(seconds=seconds), Driver(until=done))  # type: ignore[arg-type, no-any-return]


def only_error(result: SliceResult) -> PartitionError:
    assert result.ended_because == "stop", result
    assert len(result.errors) == 1
    return result.errors[0]


class WithheldBatches:
    """Batches of these partitions do not reach the target; their answer is the given error."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        which: Callable[[Partition], bool],
        code: Callable[[], int] = lambda: Code.NOT_ENOUGH_REPLICAS,
    ) -> None:
        self.times = 0
        self._which = which
        self._code = code
        self._refused: dict[int, list[Partition]] = {}
        self._send, self._read = ProduceConnection.send, ProduceConnection.read
        patch.setattr(ProduceConnection, "send", lambda *args: self._send_less(*args))
        patch.setattr(ProduceConnection, "read", lambda *args: self._read_more(*args))

    def _send_less(
        self, connection: ProduceConnection, batches: BatchesInFlight, now: float
    ) -> None:
        kept = self._refused[id(batches)] = [
            partition for partition in batches if self._which(partition)
        ]
        self.times += len(kept)
        self._send(connection, {t: p for t, p in batches.items() if t not in kept}, now)
        # What was launched is what is waited for.
        connection.in_flight[-1] = batches

    def _read_more(
        self, connection: ProduceConnection, now: float
    ) -> tuple[BatchesInFlight, list[ProduceResult]]:
        batches, answers = self._read(connection, now)
        return batches, answers + [
            ProduceResult(partition.remote_key, partition.partition, self._code(), -1, -1, "", ())
            for partition in self._refused.pop(id(batches))
        ]

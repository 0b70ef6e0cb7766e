"""The source side of a slice alone, step by step."""

from __future__ import annotations

import dataclasses

from spark_runner.engine import setup
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.source.reader import SourceReader
from spark_runner.engine.source.throttle import Throttle
from tests.wire.world import Driver, Flow


def never(partition: Partition, stop_reason: StopReason) -> None:
    raise AssertionError(f"{partition.name}: {stop_reason.reason}")


def reading(flow: Flow) -> tuple[SourceReader, Partition]:
    """Of a flow with one partition; nothing was asked yet."""
    reader, (partition,) = reading_all(flow)
    return reader, partition


def reading_all(flow: Flow, **changes: int) -> tuple[SourceReader, list[Partition]]:
    """Of a flow with several. `changes`: limits that differ from the usual ones."""
    work = flow.work()
    partitions = [setup.partition_of(each, {}) for each in work.partitions]
    limits = setup.limits_of(
        {},
        brokers=1,
        isolation_level="read_committed",
        newest=17,
        memory_bytes=64 << 20,
        request_s=20.0,
    )
    limits = dataclasses.replace(limits, **changes)
    reader = SourceReader(
        flow.source.client,
        partitions,
        setup.buffers_for(limits, brokers=1),
        limits,
        offer=lambda _track: None,
        stop=never,
        throttle=Throttle(work, Driver()),
    )
    return reader, partitions

"""A transaction may stay open for the flow's commit interval; brokers abort later ones."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mirrors.kafka.producers import transactions
from spark_runner.engine import setup
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.producer import FLUSH_S, RecordProducer
from spark_runner.engine.target import transaction
from spark_runner.engine.target.writer import TargetWriter
from spark_runner.kafka_protocol.records import Record
from tests.conftest import LATE_LOOKED_FOR_MS
from tests.wire.stops import NOW, WithheldBatches, only_error, two_partitions
from tests.wire.test_foreign_records import told
from tests.wire.world import Driver, Flow, Side, bare, unique

LONGEST_MS = 60_000
TWO_HOURS_MS = 7_200_000
# What is late has been found by then: brokers look for it every so often.
LOOKED_FOR_S = 1.5 + LATE_LOOKED_FOR_MS / 1000
# Produce adds partitions to the transaction itself (13), or AddPartitionsToTxn does (11).
each_version = pytest.mark.parametrize("newest", [13, 11])


def test_a_commit_that_comes_late_as_it_was_told_to_is_taken(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "TRANSACTION_TIMEOUT_MS", 1_000)
    # As with a backlog: then a commit comes as late as it may.
    monkeypatch.setattr(TargetWriter, "is_busy", lambda _: True)
    topic = unique("late")
    source.make(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", b"v")])
    flow = Flow(source, target, commit_interval_ms=str(int(1_000 + LOOKED_FOR_S * 1000)))
    remote = flow.add(topic)
    result, _ = flow.copy(seconds=40)
    assert result.ended_because == "stop", result
    assert len(target.read(remote)) == 1


def test_the_record_lane_s_transactions_may_last_as_long(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("long")
    source.make(topic)
    flow = Flow(source, target, commit_interval_ms=str(LONGEST_MS))
    flow.add(topic)
    configs: list[dict[str, Any]] = []
    monkeypatch.setattr(transactions, "Producer", configs.append)
    RecordProducer(flow.work(), is_urgent=lambda: False)
    assert configs[0]["transaction.timeout.ms"] >= LONGEST_MS + FLUSH_S * 1000


@each_version
def test_a_transaction_in_which_all_was_refused_is_ended(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, newest: int
) -> None:
    monkeypatch.setattr(setup, "TRANSACTION_TIMEOUT_MS", 1_000)
    flow, topic, remote = two_partitions(source, target)
    source.write(topic, 0, [Record(0, NOW + TWO_HOURS_MS, b"k", b"bad")])
    stopped_at: list[float] = []

    def is_done(driver: Driver) -> bool:
        if not stopped_at and any(figures.errors for figures in driver.figures):
            stopped_at.append(time.monotonic() + LOOKED_FOR_S)
        if len(stopped_at) == 1 and time.monotonic() > stopped_at[0]:
            stopped_at.append(source.write(topic, 1, [Record(0, NOW, b"k", b"good")]))
        return driver.position(topic, 1) > 0

    driver: Any = Driver(until=is_done)
    error = only_error(RawCopier(newest_produce=newest).run(flow.work(seconds=25), driver))
    assert (error.partition, error.code) == (0, "timestamp")
    assert bare(target.read(remote, 1)) == bare(source.read(topic, 1)) != []


@pytest.mark.parametrize(("newest", "seconds"), [(13, 3.0), (11, 5 + LOOKED_FOR_S)])
def test_a_transaction_is_ended_before_it_is_late_although_a_batch_still_waits(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, newest: int, seconds: float
) -> None:
    monkeypatch.setattr(setup, "TRANSACTION_TIMEOUT_MS", 5_000)
    monkeypatch.setattr(transaction, "OPEN_S", 1.0)
    flow, topic, remote = two_partitions(source, target)
    source.write(topic, 0, [Record(0, NOW, b"k", b"first")])
    flow.copy()
    source.write(topic, 0, [Record(0, NOW, b"k", b"v")] * 3)
    until = time.monotonic() + seconds
    kept = WithheldBatches(
        monkeypatch, lambda partition: partition.topic == topic and time.monotonic() < until
    )
    result, driver = flow.copy(RawCopier(newest_produce=newest), seconds=30)
    assert result.ended_because == "stop", result
    assert told(result, driver) == []
    assert kept.times > 10
    assert bare(target.read(remote, 0)) == bare(source.read(topic, 0))

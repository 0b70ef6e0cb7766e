"""A busy partition does not starve idle ones."""

from __future__ import annotations

import os
import threading
import time

from mirrors.kafka.admin.topics import Admin
from spark_runner.engine.epoch import RawCopier
from spark_runner.kafka_protocol.records import Record
from tests.wire.world import Driver, Flow, Side, unique

IDLE = 1_000
WRITTEN = range(0, IDLE, 50)


def fill(side: Side, topic: str, partition: int, megabytes: int) -> None:
    for _ in range(megabytes):
        rows = [Record(0, 1_700_000_000_000, b"k", os.urandom(100_000)) for _ in range(9)]
        side.write(topic, partition, rows)


def test_a_hot_partition_does_not_hold_up_a_thousand_others(source: Side, target: Side) -> None:
    hot, idle = unique("hot"), unique("idle")
    source.make(hot)
    source.make(idle, IDLE)
    fill(source, hot, 0, 24)
    # The limit makes the hot one take six seconds.
    flow = Flow(source, target, bandwidth_limit_bytes="4000000", commit_interval_ms="100")
    flow.add(hot)
    remote = flow.add(idle)
    hot_end = source.ends(hot)[0]
    stop = threading.Event()
    driver = Driver(until=lambda _: stop.is_set())
    thread = threading.Thread(target=RawCopier().run, args=(flow.work(), driver))
    thread.start()
    try:
        while driver.position(hot, 0) <= 0:
            time.sleep(0.02)
        for partition in WRITTEN:
            source.write(idle, partition, [Record(0, 1_700_000_000_000, b"k", b"v")])
        written = time.monotonic()
        while any(driver.position(idle, partition) < 1 for partition in WRITTEN):
            assert time.monotonic() - written < 2.5
            time.sleep(0.02)
        assert driver.position(hot, 0) < hot_end, "the hot one was still on its way"
    finally:
        stop.set()
        thread.join(30)
    # Brokers that other tests share need not keep two thousand logs.
    for side, name in ((source, idle), (target, remote)):
        with Admin(side.spec) as admin:
            admin.delete_topics([name]).raise_first()

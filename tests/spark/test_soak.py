"""Twenty minutes under steady traffic: nothing grows, nothing slows down.

UNDERSTUDY_SOAK_MINUTES says how long else.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import sys
import threading
import time
import uuid

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.spark.conftest import MakeLab
from tests.spark.lab import Flow, Lab
from tests.spark.reading import records

MINUTES = float(os.environ.get("UNDERSTUDY_SOAK_MINUTES", "20"))
pytestmark = [pytest.mark.soak, pytest.mark.timeout(MINUTES * 60 + 600)]
PARTITIONS = 8
A_SECOND = 200
SAMPLE_S = 5.0
# Epochs change and pools fill up meanwhile.
WARM_S = min(120.0, MINUTES * 60 / 5)


@dataclasses.dataclass
class Sample:
    memory: int
    processes: int
    threads: int
    files: int
    connections: int


class Traffic(threading.Thread):
    """Plain records and transactions, some of them aborted; each value is when it was written."""

    def __init__(self, lab: Lab, topic: str) -> None:
        super().__init__(daemon=True)
        self._plain = lab.writer()
        self._bound: Producer = lab.writer(**{"transactional.id": f"soak-{uuid.uuid4().hex}"})
        self._topic = topic
        self._ending = threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._bound.init_transactions(30)
            number = 0
            while not self._ending.is_set():
                self._burst(number)
                number += 1
                time.sleep(20 / A_SECOND)
            assert self._plain.flush(30) == 0
        except (KafkaException, AssertionError) as error:
            self.error = error

    def _burst(self, number: int) -> None:
        """Ten plain records and a transaction of ten."""
        self._bound.begin_transaction()
        for producer in (self._plain, self._bound):
            for at in range(10):
                producer.produce(
                    self._topic,
                    f"{time.time_ns() // 1_000_000}".encode().ljust(500),
                    partition=(number + at) % PARTITIONS,
                )
            producer.poll(0)
        if number % 7:
            self._bound.commit_transaction(30)
        else:
            self._bound.abort_transaction(30)

    def end(self) -> None:
        self._ending.set()
        self.join(60)
        assert self.error is None


class Latency(threading.Thread):
    """How old each record is when a reader of committed records on the target sees it, in ms."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._reader = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"soak-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._reader.assign([TopicPartition(topic, at, 0) for at in range(PARTITIONS)])
        self._ending = threading.Event()
        self.seen: list[tuple[float, float]] = []

    def run(self) -> None:
        while not self._ending.is_set():
            for message in self._reader.consume(500, 0.1):
                if message.error() is None:
                    age = time.time() * 1000 - int(message.value())
                    self.seen.append((time.monotonic(), age))
        self._reader.close()

    def end(self) -> None:
        self._ending.set()
        self.join(30)

    def between(self, start: float, stop: float) -> tuple[float, float]:
        """Median and 99th percentile."""
        ages = [age for at, age in self.seen if start <= at < stop]
        return statistics.median(ages), statistics.quantiles(ages, n=100)[-1]


def _sample(lab: Lab) -> Sample:
    runner = psutil.Process(lab.process.pid)
    found = Sample(0, 0, 0, 0, 0)
    for process in (runner, *runner.children(recursive=True)):
        try:
            found.memory += process.memory_full_info().pss
            found.threads += process.num_threads()
            found.files += process.num_fds()
            found.connections += len(process.net_connections("tcp"))
        except psutil.NoSuchProcess:
            continue
        found.processes += 1
    return found


def _flow(lab: Lab, **settings: str) -> tuple[Flow, str]:
    flow = lab.flow(tasks_max="2", **settings)
    topic = lab.create(flow.topic("soak"), PARTITIONS)
    flow.start().wait_state("running", seconds=60)
    return flow, topic


def test_memory_latency_files_threads_and_connections_stay_flat(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.start_runner()
    flow, topic = _flow(lab)
    other, loose = _flow(lab, delivery="at_least_once")
    writers = [Traffic(lab, topic), Traffic(lab, loose)]
    for writer in writers:
        writer.start()
    flow.wait(lambda s: any(row.position for row in s.partitions), seconds=60)
    latency = Latency(lab.target, flow.remote(topic))
    latency.start()
    time.sleep(WARM_S)
    began = time.monotonic()
    span = MINUTES * 60 - WARM_S
    samples = []
    while time.monotonic() < began + span:
        samples.append(_sample(lab))
        time.sleep(SAMPLE_S)
    third = len(samples) // 3
    first, last = samples[:third], samples[-third:]
    early = latency.between(began, began + span / 3)
    late = latency.between(began + span * 2 / 3, began + span)
    for writer in writers:
        writer.end()
    flow.wait_in_sync(topic, seconds=60)
    other.wait_in_sync(loose, seconds=60)
    latency.end()
    grown = _growth(first, last)
    sys.stdout.write(f"{len(samples)} samples; first and last third: {grown}; {early}, {late} ms\n")
    for what, (before, after) in grown.items():
        room = before * 0.05 + 12e6 if what == "memory" else 2
        assert after <= before + room, (what, before, after)
    assert late[0] <= early[0] * 1.5 + 20
    assert late[1] <= early[1] * 2 + 100
    for one, name in ((flow, topic), (other, loose)):
        assert records(lab.target, one.remote(name)) == records(lab.source, name)


def _growth(first: list[Sample], last: list[Sample]) -> dict[str, tuple[float, float]]:
    """Medians of the first and of the last third."""
    return {
        field.name: (
            statistics.median(getattr(row, field.name) for row in first),
            statistics.median(getattr(row, field.name) for row in last),
        )
        for field in dataclasses.fields(Sample)
    }

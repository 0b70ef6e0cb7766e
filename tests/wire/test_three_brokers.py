"""Two clusters of three brokers, three replicas, two in sync: brokers restart and fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from controlplane.demo.kafka.cluster import KafkaCluster
from controlplane.demo.processes.guard import Guard
from tests.wire.independent import compare
from tests.wire.running import PARTITIONS, Running
from tests.wire.world import Flow, Side, unique

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def six(
    tmp_path_factory: pytest.TempPathFactory, guard: Guard
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    clusters = [
        KafkaCluster(
            tmp_path_factory.mktemp(name),
            name=name,
            heap="320m",
            jvm=("-XX:TieredStopAtLevel=1",),
            environment=guard.environment,
            properties={"min.insync.replicas": "2", "default.replication.factor": "3"},
        )
        for name in ("three-a", "three-b")
    ]
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(KafkaCluster.start, clusters))
        yield clusters[0], clusters[1]
    finally:
        for cluster in clusters:
            cluster.kill()


class Traffic:
    """An idempotent producer that outlives its brokers; what it was promised must be there."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20}
        self._producer = Producer(config)
        self._topic = topic
        self._stop = threading.Event()
        self.promised = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            self._producer.produce(
                self._topic,
                b"x" * 2000,
                b"%d" % number,
                number % PARTITIONS,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)
            time.sleep(0.001)

    def _delivered(self, error: object, _message: object) -> None:
        self.promised += error is None


def test_rolling_restarts_and_killed_brokers_lose_and_double_nothing(
    six: tuple[KafkaCluster, KafkaCluster],
) -> None:
    here, there = six
    source, target = Side("one", here.bootstrap), Side("two", there.bootstrap)
    topic = unique("three")
    source.make(topic, PARTITIONS, replicas=3)
    flow = Flow(source, target, replicas=3, commit_interval_ms="100")
    remote = flow.add(topic)
    running = Running(flow, topic, seconds=500)
    with running, Traffic(here.bootstrap, topic) as traffic:
        for cluster in six:
            for broker in cluster.brokers:
                time.sleep(2)
                broker.restart()
        for cluster in six * 2:
            broker = cluster.brokers[int(time.time()) % 3]
            broker.kill()
            time.sleep(4)
            broker.launch()
            broker.wait()
        time.sleep(5)
        assert running.result is None, running.result
        traffic.__exit__()
        running.caught_up(90)
    total = sum(map(len, compare(flow, topic, remote).values()))
    assert total >= traffic.promised > 5000

"""Runs the engine in a thread while the test changes something."""

from __future__ import annotations

import itertools
import threading
import time

from spark_runner.engine.epoch import RawCopier
from spark_runner.ipc.messages import SliceResult
from spark_runner.kafka_protocol.records import Record
from tests.wire.world import Driver, Flow

NOW = int(time.time() * 1000)
BIG = b"v" * 15_000
PARTITIONS = 3


class Running:
    """The engine in a thread, with traffic on its source."""

    def __init__(
        self,
        flow: Flow,
        topic: str,
        *,
        seconds: float = 120,
        copier: RawCopier | None = None,
    ) -> None:
        self._copier = copier or RawCopier()
        self.flow, self.topic = flow, topic
        self.driver = Driver(until=lambda _: self._stop.is_set())
        self.result: SliceResult | None = None
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine")
        self._numbers = itertools.count()

    def _run(self) -> None:
        self.result = self._copier.run(self.flow.work(seconds=self._seconds), self.driver)  # type: ignore[arg-type]

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def write(self, rounds: int, *, pause: float = 0.01) -> None:
        for _, partition in itertools.product(range(rounds), range(PARTITIONS)):
            rows = [Record(0, NOW, b"%d" % next(self._numbers), BIG)] * 2
            self.flow.source.write(self.topic, partition, rows)
            time.sleep(pause)

    def caught_up(self, seconds: float = 45) -> None:
        ends = self.flow.ends()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if all(self.driver.position(*tp) >= end for tp, end in ends.items()):
                return
            assert self.result is None, self.result
            time.sleep(0.05)
        raise AssertionError(f"not caught up: {self.driver.figures[-1]}")

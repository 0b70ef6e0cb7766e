"""A thousand idle partitions cost almost nothing: an empty fetch session, a long poll."""

from __future__ import annotations

import time

import pytest

from spark_runner.engine.epoch import RawCopier
from spark_runner.kafka_protocol.records import Record
from tests.wire.world import Driver, Flow, Side, bare, unique

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]
PARTITIONS = 1000
IDLE_S = 20.0


class IdleDriver(Driver):
    """Looks at the clock once everything has been quiet for a while, and stops later."""

    def __init__(self) -> None:
        super().__init__(until=lambda _: self._done())
        self._began = time.monotonic()
        self._cpu: float | None = None
        self.busy = 0.0

    def _done(self) -> bool:
        passed = time.monotonic() - self._began
        if self._cpu is None and passed > 10:
            self._cpu = time.process_time()
        if passed < 10 + IDLE_S:
            return False
        assert self._cpu is not None
        self.busy = (time.process_time() - self._cpu) / IDLE_S
        return True

    def due(self, *, moved: bool = True) -> bool:
        return time.monotonic() - self._reported_at > (1 if moved else 5)


def test_a_thousand_idle_partitions_take_less_than_one_percent_of_a_core(
    source: Side, target: Side
) -> None:
    topic = unique("idle")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target)
    remote = flow.add(topic)
    for partition in (0, 500, 999):
        source.write(topic, partition, [Record(0, 1, b"k", b"v" * 100)] * 3)
    driver = IdleDriver()
    result = RawCopier().run(flow.work(seconds=200), driver)  # type: ignore[arg-type]
    assert result.errors == ()
    for partition in (0, 500, 999):
        assert bare(target.read(remote, partition)) == bare(source.read(topic, partition))
    assert driver.busy < 0.01, f"{driver.busy:.2%} of a core"

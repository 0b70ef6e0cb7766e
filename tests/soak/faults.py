"""Faults and commands that repeat during the long run, equally often in each third.

Every turn a proxy cuts the connections through TLS, the source's and the target's by turns. Of
three turns the first makes a topic and deletes the one before it, once that is compared; the second
pauses the limited flow and resumes it; the third writes more than the limit lets through.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from confluent_kafka.admin import AdminClient, NewPartitions

from controlplane.demo.verification.topics import compare_topics
from tests.journeys.demo_client import Rest
from tests.soak.full_demo import WholeStage
from tests.soak.load import create, write

RECORDS = 300
GROWS = "grows"
BULK = ("bulk-high", "bulk-middle", "bulk-low")
_PAUSE_S = 3.0
_WITHIN_S = 60.0


class Unrest(threading.Thread):
    """`turn_s` is how long a turn takes; once in `grow` turns a topic gets another partition."""

    def __init__(self, stage: WholeStage, limited: int, *, turn_s: float, grow: int) -> None:
        super().__init__(name="unrest", daemon=True)
        self._stage, self._limited = stage, limited
        self._turn_s, self._grow = turn_s, grow
        self._rest = Rest(stage)
        self._source, self._target = stage.clusters["primary"], stage.clusters["backup"]
        self._admin = AdminClient({"bootstrap.servers": self._source, "log_level": 0})
        self._ending = threading.Event()
        self._partitions = 2
        self._passing = ""
        self.turns = 0
        self.error: Exception | None = None

    def prepare(self) -> None:
        create(self._source, GROWS, self._partitions)
        for topic in BULK:
            create(self._source, topic, 2)

    def run(self) -> None:
        due = time.monotonic()
        try:
            while not self._ending.wait(max(0.0, due - time.monotonic())):
                self._turn()
                self.turns += 1
                due += self._turn_s
        except Exception as error:  # noqa: BLE001 - told by `end`, in the test's own thread
            self.error = error

    def end(self) -> None:
        self._ending.set()
        self.join(180)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error

    def _turn(self) -> None:
        proxies = list(self._stage.proxies.values())
        proxies[self.turns % 2].cut()
        (self._come_and_go, self._rest_a_while, self._burst)[self.turns % 3]()
        if self.turns % self._grow == self._grow // 2:
            self._partitions += 1
            new = NewPartitions(GROWS, self._partitions)
            self._admin.create_partitions([new])[GROWS].result(20)
        write(self._source, GROWS, RECORDS, 100, "gzip")

    def _come_and_go(self) -> None:
        if self._passing:
            pairs = {self._passing: f"primary.{self._passing}"}
            self._wait(lambda: self._is_copied(pairs), f"{self._passing} is copied")
            self._admin.delete_topics([self._passing])[self._passing].result(20)
        self._passing = f"passing-{self.turns}"
        create(self._source, self._passing, 3)
        write(self._source, self._passing, RECORDS, 1_000, "zstd")

    def _is_copied(self, pairs: dict[str, str]) -> bool:
        found = compare_topics(self._source, self._target, pairs)
        return found.records == RECORDS and not found.differences

    def _rest_a_while(self) -> None:
        for act, state in (("pause", "paused"), ("resume", "running")):
            self._rest(f"flows/{self._limited}/{act}/", {})
            self._wait(lambda: self._state() == state, f"the flow is {state}")  # noqa: B023
            time.sleep(_PAUSE_S)

    def _state(self) -> str:
        return str(self._rest(f"flows/{self._limited}/")["observed_state"])

    def _burst(self) -> None:
        for topic in BULK:
            write(self._source, topic, 100, 10_000)

    def _wait(self, so: Callable[[], object], what: str) -> None:
        until = time.monotonic() + _WITHIN_S
        while not so():
            assert time.monotonic() < until, f"{what}: not within {_WITHIN_S:.0f} s"
            time.sleep(0.5)

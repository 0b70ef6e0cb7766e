"""How far the source reaches: both ends of each partition, asked seldom while nothing moves."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from mirrors.domain.specs import ClusterSpec
from spark_runner.positions import Place
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.codes import failure
from spark_runner.wire.messages import Repeated
from spark_runner.wire.offsets import READ_COMMITTED, READ_UNCOMMITTED, listed, requests
from spark_runner.wire.patience import until_answered

DEADLINE_S = 5.0


@dataclasses.dataclass(frozen=True)
class Ends:
    """`end` counts everything, `stable` only what a reader of committed records may read."""

    as_of: int
    end: dict[Place, int]
    stable: dict[Place, int]


class EndsSampler:
    """Used by one thread at a time; raises when nothing at all is answered."""

    def __init__(self, source: ClusterSpec) -> None:
        self._cluster = ClusterClient(source)
        self._places: list[Place] = []
        self._asked: dict[int, list[_Question]] = {}

    def close(self) -> None:
        self._cluster.close()

    def sample(self, places: list[Place]) -> Ends:
        deadline = time.monotonic() + DEADLINE_S
        return until_answered(lambda: self._sample(places, deadline), deadline)

    def _sample(self, places: list[Place], deadline: float) -> Ends:
        as_of = int(time.time() * 1000)
        if places != self._places:
            self._prepare(places, deadline)
        try:
            stable, end = self._ask(deadline)
        except Exception:
            # Whoever leads by now is asked the next time.
            self._places = []
            raise
        return Ends(as_of, end, stable)

    def _prepare(self, places: list[Place], deadline: float) -> None:
        views = self._cluster.describe({topic for topic, _ in places}, deadline)
        led = [
            (topic, partition, leader)
            for topic, partition in places
            if topic in views
            and (leader := views[topic].leaders.get(partition)) is not None
            and leader.node >= 0
        ]
        self._asked = {
            isolation: [
                _Question(node, request)
                for node, request in requests(led, isolation=isolation).items()
            ]
            for isolation in (READ_COMMITTED, READ_UNCOMMITTED)
        }
        self._places = list(places)

    def _ask(self, deadline: float) -> tuple[dict[Place, int], dict[Place, int]]:
        """Stable ends, then ends: in this order the first is never beyond the second."""
        answers = []
        errors: set[int] = set()
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            found: dict[Place, int] = {}
            for question in self._asked[isolation]:
                found |= question.ask(self._cluster, deadline)
                errors |= question.errors
            answers.append(found)
        if errors or not answers[0]:
            self._places = []
        if errors and not answers[0]:
            raise failure(min(errors), where=self._cluster.alias, doing="ask for ends")
        stable, end = answers
        return stable, end


class _Question:
    """The ends of what one broker leads; an answer that did not change is not read again."""

    def __init__(self, node: int, request: Any) -> None:
        self._node = node
        self._question = Repeated(request)
        self._reply: Any = None
        self._found: dict[Place, int] = {}
        self.errors: set[int] = set()

    def ask(self, cluster: ClusterClient, deadline: float) -> dict[Place, int]:
        reply = cluster.ask(self._question, deadline, node=self._node)
        if reply is not self._reply:
            rows = listed(reply)
            self.errors = {row.error for row in rows.values() if row.error}
            self._found = {place: row.offset for place, row in rows.items() if not row.error}
            self._reply = reply
        return self._found

"""A rule evaluated in Python, with answers that come late: the engine's side under chaos.

What Spark does is tested in tests/spark/test_rules.py.
"""

from __future__ import annotations

import dataclasses
import os
import queue
import random
import threading
import time
from collections.abc import Iterator, Sequence

from mirrors.domain.transforms.rules import TransformRule, format_rules, parse_rules
from spark_runner.engine.transforms.evaluation import EvaluatedRows, Row
from spark_runner.kafka_protocol.records import Record

RULES = format_rules(
    (
        TransformRule(
            topics=".*",
            where="offset % 3 <> 1",
            # The evaluator below says that it fails for every seventh record.
            value="concat(value, cast('!' as binary))",
            on_error="dead_letter",
        ),
    )
)


def routed_rules(routes: Sequence[str]) -> str:
    """The same rule with these routes, for Europe and Asia."""
    [rule] = parse_rules(RULES)
    return format_rules([dataclasses.replace(rule, topic="null", routes=tuple(routes))])


def place(offset: int) -> int:
    """Where a record goes: 0 for the topic of the policy, 1 and 2 for the routes."""
    return (offset // 5) % 3


def fails(offset: int) -> bool:
    return offset % 3 != 1 and offset % 7 == 3


def expected(records: Sequence[Record]) -> Iterator[Record]:
    """What the rule leaves of a source partition."""
    for record in records:
        if record.offset % 3 != 1 and not fails(record.offset):
            yield record._replace(value=(record.value or b"") + b"!")


class DelayedRules:
    """An `Evaluator`; `pace` stretches its delays, of up to 0.1 s."""

    def __init__(self, seed: float, pace: float, routes: Sequence[str] = ()) -> None:
        self._routes = (None, *routes)
        self._chance = random.Random(seed)
        self._pace = pace
        self._asked: queue.SimpleQueue[Sequence[Row] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[EvaluatedRows] = queue.SimpleQueue()
        self._wakes, self._wake = os.pipe()
        os.set_blocking(self._wakes, False)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.missing_ids: set[int] = set()
        self.refused: dict[int, str] = {}

    def close(self) -> None:
        self._asked.put(None)
        self._thread.join(10)
        os.close(self._wakes)
        os.close(self._wake)

    def send(self, rule: int, topic: str, partition: int, rows: Sequence[Row]) -> None:
        self._asked.put(rows)

    def receive(self) -> list[EvaluatedRows]:
        try:
            os.read(self._wakes, 4096)
        except BlockingIOError:
            return []
        found = []
        while not self._answers.empty():
            found.append(self._answers.get())
        return found

    def fileno(self) -> int:
        return self._wakes

    def _run(self) -> None:
        while (rows := self._asked.get()) is not None:
            time.sleep(self._pace * self._chance.choice((0, 0, 0.01, 0.1)))
            kept = [piece.offset % 3 != 1 for piece, _, _ in rows]
            values = [(fields.value or b"") + b"!" for _, fields, _ in rows]
            failed = {at: "value" for at, row in enumerate(rows) if fails(row[0].offset)}
            topics = None
            if len(self._routes) > 1:
                topics = [self._routes[place(row[0].offset)] for row in rows]
            self._answers.put(EvaluatedRows(kept, failed, None, values, None, topics))
            os.write(self._wake, b"\0")

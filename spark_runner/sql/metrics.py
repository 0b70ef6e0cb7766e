"""The figures of an epoch with rules in Spark's own metrics, as its UI and event log show them.

Python cannot set the metrics of a task: accumulators of PySpark are others. So the numbers travel
to Spark as a row, and `TaskFigures.java` adds them in the executor's Java process. The copy loop
reports once a second; a row follows at most each FIGURES_S, and at the end.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Final

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.transforms.rules import TransformRule, rule_number
from spark_runner.ipc.messages import Figures, SliceResult

# An update costs as much as a request. Executors do not report to the driver more often.
FIGURES_S: Final = 5.0
# Spark itself counts the row that starts the task as input.
_STARTING_ROWS: Final = 1


class TaskMetrics:
    """What Spark shows as input and output of the task.

    One for each epoch. It belongs to the thread of the copy loop.

    - Input: records that rules evaluated, in bytes of the uncompressed records, and what was copied
      unchanged of other topics.
    - Output: records that the target has committed, in bytes as sent.
    """

    def __init__(self, rules: Sequence[TransformRule]) -> None:
        self._has_rule = functools.cache(lambda topic: rule_number(topic, rules) is not None)
        self._evaluated = (0, 0)
        self._unchanged: dict[TopicPartition, tuple[int, int]] = {}
        self._told: tuple[int, ...] = (_STARTING_ROWS, 0, 0, 0)
        self._told_at = 0.0

    def add_evaluated(self, records: int, size: int) -> None:
        """Records that are sent to the rules now; `size` in uncompressed bytes."""
        self._evaluated = (self._evaluated[0] + records, self._evaluated[1] + size)

    def take(self, figures: Figures | SliceResult, *, is_last: bool) -> str:
        """The arguments of `TaskFigures.java`; empty if nothing changed, or for some seconds.

        - `figures` has totals of this epoch. A result without partitions has no totals, so the
          output never decreases.
        - Spark adds input to what it has, and replaces output.
        """
        for row in figures.partitions:
            if not self._has_rule(row.topic):
                self._unchanged[row.topic, row.partition] = (row.records, row.bytes)
        both = [self._evaluated, *self._unchanged.values()]
        read = (sum(records for records, _ in both), sum(size for _, size in both))
        written = (figures.records, figures.bytes)
        now = (*read, *(max(pair) for pair in zip(written, self._told[2:], strict=True)))
        if now == self._told or (not is_last and time.monotonic() - self._told_at < FIGURES_S):
            return ""
        numbers = (now[0] - self._told[0], now[1] - self._told[1], *now[2:])
        self._told, self._told_at = now, time.monotonic()
        return " ".join(map(str, numbers))

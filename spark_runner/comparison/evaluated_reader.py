"""The records of a source range after their rule, as the copy loop writes them to one topic.

They go through the same evaluation in Spark. A record that the rule drops or routes to another
topic, or whose expression fails, is not written there, so it is not compared. A record for which
user code took too long or ended its process may have been written, so its range is not compared.
"""

from __future__ import annotations

import select
import time
from typing import Final, NamedTuple

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import FlowSpec
from mirrors.function_modules import ModuleRefused
from spark_runner.comparison.range_reader import Batch, Reader
from spark_runner.engine.batches.record_bytes import RecordBytes
from spark_runner.engine.transforms.evaluation import (
    EvaluatedRows,
    Evaluator,
    Row,
    kept_records,
    with_origin,
)
from spark_runner.engine.transforms.record_fields import RecordFields

# Records and bytes of one evaluation.
_RECORDS: Final = 4000
_BYTES: Final = 2 << 20
# The first evaluation of a runner takes long: Spark loads its SQL classes.
_PATIENCE_S: Final = 60.0
# User code is loaded, and may be interrupted for a minute (`function_process`).
_CODE_PATIENCE_S: Final = 180.0


class EvaluatedBatch(NamedTuple):
    """Records that a rule kept, in its form; the offsets are those of what was evaluated."""

    first_offset: int
    last_offset: int
    kept: list[RecordBytes]
    is_append_time: bool = False

    def has_same_records(self, other: Batch) -> bool:
        """The bytes are others in any case."""
        return False

    def records(self) -> list[RecordBytes]:
        return self.kept


class EvaluatedReader:
    """A reader of the source whose records go through the rule with this index.

    With routes, it returns the records that go to `remote_topic`.
    """

    def __init__(
        self,
        reader: Reader,
        evaluator: Evaluator,
        spec: FlowSpec,
        rule: int,
        tp: tuple[str, int],
        remote_topic: str,
    ) -> None:
        self._reader, self._evaluator = reader, evaluator
        self._rule, self._tp = rule, tp
        self._source = spec.source.alias
        self._has_origin = spec.settings.transforms[rule].provenance
        calls_modules = bool(spec.settings.transforms[rule].modules)
        self._patience_s = _CODE_PATIENCE_S if calls_modules else _PATIENCE_S
        is_route = remote_topic in spec.settings.transforms[rule].routes
        self._route = remote_topic if is_route else None
        self.reached = reader.reached

    def next(self) -> EvaluatedBatch | None:
        """The records of the next batches; None at the end. Raises UnderstudyError, ValueError or
        IndexError."""
        rows: list[Row] = []
        first = last = size = 0
        while len(rows) < _RECORDS and size < _BYTES:
            batch = self._reader.next()
            if batch is None:
                break
            if not rows:
                first = batch.first_offset
            last = batch.last_offset
            appended = int(batch.is_append_time)
            for piece in batch.records():
                rows.append((piece, RecordFields(piece.rest), appended))
                size += len(piece.rest)
        if not rows:
            self.reached = self._reader.reached
            return None
        self.reached = max(self.reached, first)
        return EvaluatedBatch(first, last, self._evaluate(rows))

    def close(self) -> None:
        self._reader.close()

    def _check_code(self, rows: list[Row], answer: EvaluatedRows) -> None:
        """Raises ModuleRefused if it is not known what user code makes of a record."""
        numbers = list(answer.interrupted)
        why = ""
        if answer.halt is not None:
            numbers, why = [answer.halt.number], answer.halt.reason
        if numbers:
            number = min(numbers)
            topic, partition = self._tp
            raise ModuleRefused(
                f"It is not known what rule {self._rule + 1} makes of the record at "
                f"{topic}-{partition} offset {rows[number][0].offset}, so it was not compared: "
                f"{(why or answer.reasons[number]).rstrip('.')}. Correct the module, then compare "
                "again."
            )

    def _evaluate(self, rows: list[Row]) -> list[RecordBytes]:
        self._evaluator.send(self._rule, *self._tp, rows)
        until = time.monotonic() + self._patience_s
        while not (answers := self._evaluator.receive()):
            left = until - time.monotonic()
            if left <= 0:
                raise KafkaUnavailable(
                    f"Spark did not evaluate rule {self._rule + 1} within {self._patience_s:.0f} s."
                )
            select.select([self._evaluator.fileno()], [], [], left)
        [answer] = answers
        self._check_code(rows, answer)
        routes = answer.topics or [None] * len(answer.kept)
        written = [
            is_kept and number not in answer.failed and routes[number] == self._route
            for number, is_kept in enumerate(answer.kept)
        ]
        found = kept_records(rows, answer._replace(kept=written))
        if self._has_origin:
            found = [with_origin(piece, self._source, self._tp) for piece in found]
        return found

"""Evaluates a slice's rules in Spark: requests go out as rows, answers come back by a socket.

Imported only in such jobs, since pyarrow takes memory and time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import shutil
import socket
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.schemas.registry import RegistrySpec
from mirrors.domain.schemas.subjects import SubjectSelection
from mirrors.domain.transforms.rules import TransformRule
from mirrors.function_modules import ModuleRefused
from spark_runner.engine.transforms.evaluation import MODULE_REFUSED, EvaluatedRows, Halt, Row
from spark_runner.ipc.messages import Figures, SliceResult
from spark_runner.sql import columns
from spark_runner.sql.arrow_columns import (
    VALUES,
    arrow_schema,
    as_array,
    headers_of,
    nulls_of,
    read_frame,
    whole_column,
)
from spark_runner.sql.columns import (
    ADDRESS,
    ARGUMENTS,
    BATCH_ROWS,
    CHANGES,
    FIGURES,
    FILLER,
    FLUSH_BYTES,
    KEEP,
    RECORD,
    RESULT,
    changed_fields,
    used_columns,
)
from spark_runner.sql.function_process import CalledFunctions, FunctionThread
from spark_runner.sql.metrics import TaskMetrics
from spark_runner.sql.schemas import SchemaFiles, ids_of
from spark_runner.sql.user_functions import FunctionCall

_OF_REQUESTS: Final = pa.array([RECORD, ARGUMENTS], pa.int32())


class EvaluationEnded(UnderstudyError):
    """Spark returns no more results, and the copy loop needs some."""

    code = "transforms"


@dataclasses.dataclass
class _Request:
    """Records of one rule, until they have their answer.

    - `sent`: its columns, for a rule with user code. They are sent again with the results.
    - `called`: these results.
    """

    rule: int
    count: int
    sent: dict[str, Any] | None = None
    called: CalledFunctions | None = None
    answer: EvaluatedRows | None = None


class ArrowEvaluator:
    """`Evaluator` over Spark: requests go through the task's output, answers come by a socket.

    `send` and `receive` belong to the thread of the copy loop, `batches` to that of the worker.
    """

    def __init__(
        self,
        rules: Sequence[TransformRule],
        secrets: Mapping[str, bytes],
        calls: Sequence[FunctionCall] = (),
    ) -> None:
        """`secrets` by their columns. `calls` of user code; without them nothing of it is used."""
        self._rules = rules
        self._used = used_columns(rules)
        self._changed = changed_fields(rules)
        self._secrets = secrets
        self._schema = arrow_schema(rules, calls)
        # Batches, and ids of schemas that batches after them need.
        self._outbox: queue.SimpleQueue[pa.RecordBatch | set[int] | None] = queue.SimpleQueue()
        self._sent_rows = 0
        # In their order, and in that of what Spark evaluates: twice for a rule with user code.
        self._requests: deque[_Request] = deque()
        self._open: deque[_Request] = deque()
        self._schemas: SchemaFiles | None = None
        # The other thread adds to it before it passes on the records.
        self.missing_ids: set[int] = set()
        self.refused: dict[int, str] = {}
        self._functions: FunctionThread[_Request] | None = None
        if calls:
            self._functions = FunctionThread(calls, self._wake_up)
        self._failure: UnderstudyError | None = None
        self._metrics = TaskMetrics(rules)
        self._rows: list[pa.RecordBatch] = []
        self._row_count = 0
        self._results: queue.SimpleQueue[pa.RecordBatch | None] = queue.SimpleQueue()
        self._wakes, self._wake = os.pipe()
        os.set_blocking(self._wakes, False)
        self._wake_lock = threading.Lock()
        self._folder = Path(tempfile.mkdtemp(prefix="understudy-sql-"))
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path = str(self._folder / "results")
        self._listener.bind(path)
        self._listener.listen(1)
        threading.Thread(target=self._read, name="results", daemon=True).start()
        self._put({columns.KIND: [ADDRESS], columns.TEXT: [path]})
        self._flush()

    def close(self) -> None:
        """After the copy loop has ended. Workers live on for other tasks."""
        if self._functions is not None:
            self._functions.close()
        # Ends the wait for the second worker, if it never came.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        os.close(self._wakes)
        shutil.rmtree(self._folder, ignore_errors=True)

    def read_schemas(
        self,
        source: RegistrySpec | None,
        target: RegistrySpec | None,
        names: SubjectSelection | None = None,
        *,
        waits: bool = False,
    ) -> None:
        """Before the first request. Raises InvalidSettings if the source has no registry.

        - `target`: only for rules that need the target's ids. `names`: of subjects there.
        - `waits`: whether a record waits for a schema that the target does not have.
        """
        self._schemas = SchemaFiles(source, target, self._folder / "schemas", names)
        if waits:
            self.missing_ids = self._schemas.missing

    # -- the worker's thread

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What the worker returns to Spark, until the copy loop has ended."""
        while (item := self._outbox.get()) is not None:
            if isinstance(item, set):
                self._fetch(item)
            elif self._failure is None or RESULT in item.column(0).to_pylist():
                # Records whose schemas could not be fetched are not evaluated: they would fail.
                yield item

    def _fetch(self, ids: set[int]) -> None:
        """Fetch schemas; if that fails, the copy loop ends with the reason."""
        if self._schemas is None or self._failure is not None:
            return
        try:
            self._schemas.fetch(ids)
        except UnderstudyError as error:
            # The slice is started again with backoff.
            self._failure = error
            self._results.put(None)
            self._wake_up()

    # -- the copy loop's thread

    def send(self, rule: int, topic: str, partition: int, rows: Sequence[Row]) -> None:
        count = len(rows)
        fixed = {"topic": topic, "partition": partition}
        found: dict[str, Any] = {columns.KIND: [RECORD] * count, columns.RULE: [rule] * count}
        for name in self._used:
            if name == "headers":
                found[name] = headers_of(rows)
            elif name in fixed:
                found[name] = [fixed[name]] * count
            else:
                value = VALUES[name]
                found[name] = [value(row) for row in rows]
        for name, secret in self._secrets.items():
            found[name] = [secret] * count
        if self._schemas is not None:
            found[columns.SCHEMAS] = [str(self._schemas.folder)] * count
            parts = (value for name in ("key", "value") for value in found.get(name, ()))
            if ids := ids_of(parts):
                # In the worker's thread: the copy loop never waits for a registry.
                self._outbox.put(ids)
        self._metrics.add_evaluated(count, sum(len(row[0].rest) for row in rows))
        request = _Request(rule, count)
        self._requests.append(request)
        if self._functions is not None and self._functions.serves(rule):
            # Spark evaluates the arguments of its functions first.
            fields = (field for field in self._schema if field.name in found)
            request.sent = {field.name: as_array(found[field.name], field.type) for field in fields}
            found = {**request.sent, columns.KIND: [ARGUMENTS] * count}
        self._evaluate(request, found)

    def _evaluate(self, request: _Request, found: dict[str, Any]) -> None:
        self._open.append(request)
        self._put(found)
        self._flush()

    def receive(self) -> list[EvaluatedRows]:
        found: list[EvaluatedRows] = []
        if self._failure is not None:
            raise self._failure
        try:
            os.read(self._wakes, 4096)
        except BlockingIOError:
            return found
        while not self._results.empty():
            batch = self._results.get()
            if batch is None:
                raise self._failure or EvaluationEnded(
                    "Spark ended the evaluation of the rules before the slice had ended."
                )
            kinds = batch.column(0)
            records = batch.filter(pc.is_in(kinds, value_set=_OF_REQUESTS))
            self._rows.append(records)
            self._row_count += records.num_rows
        while self._open and self._row_count >= self._open[0].count:
            request = self._open.popleft()
            table = self._take(request.count)
            if self._functions is not None and request.sent is not None and request.called is None:
                self._functions.put(request, request.rule, table)
            else:
                request.answer = self._answer(request, table)
        if self._functions is not None:
            self._receive_called(self._functions)
        while self._requests and (answer := self._requests[0].answer) is not None:
            self._requests.popleft()
            found.append(answer)
        return found

    def _receive_called(self, functions: FunctionThread[_Request]) -> None:
        """Let Spark evaluate the expressions around the results of user code."""
        for request, called in functions.done():
            if isinstance(called, ModuleRefused):
                self.refused[request.rule] = called.message
                halt = Halt(0, MODULE_REFUSED, called.message)
                nothing = [False] * request.count
                request.answer = EvaluatedRows(nothing, {}, None, None, None, halt=halt)
            elif isinstance(called, Exception):
                raise EvaluationEnded(f"User code could not be called: {type(called).__name__}.")
            else:
                request.called = called
                self._evaluate(request, {**(request.sent or {}), **called.columns})

    def fileno(self) -> int:
        return self._wakes

    def note(self, figures: Figures | SliceResult, *, is_last: bool = False) -> None:
        """Show the epoch's figures in Spark's metrics of this task."""
        if text := self._metrics.take(figures, is_last=is_last):
            self._put({columns.KIND: [FIGURES], columns.TEXT: [text]})
            self._flush()

    def end(self, text: str) -> None:
        """The copy loop has ended with this result."""
        self._put({columns.KIND: [RESULT], columns.TEXT: [text]})
        self._flush()
        self._outbox.put(None)

    # -- requests

    def _put(self, found: dict[str, Any]) -> None:
        count = len(found[columns.KIND])
        arrays = [
            as_array(found[field.name], field.type)
            if field.name in found
            else pa.nulls(count, field.type)
            for field in self._schema
        ]
        batch = pa.record_batch(arrays, schema=self._schema)
        self._sent_rows += count
        for at in range(0, count, BATCH_ROWS):
            self._outbox.put(batch.slice(at, BATCH_ROWS))

    def _flush(self) -> None:
        """Fill the batch in which Spark collects rows, and this worker's output buffer.

        Spark passes a batch on when it sees the row after it.
        """
        missing = -self._sent_rows % BATCH_ROWS + 1
        self._put({columns.KIND: [FILLER] * missing})
        self._put({columns.KIND: [FILLER], columns.FLUSH: [bytes(FLUSH_BYTES)]})

    # -- answers

    def _read(self) -> None:
        """In a thread of its own, so that the second worker never waits for the copy loop."""
        try:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as stream:
                schema = pa.ipc.read_schema(pa.py_buffer(read_frame(stream)))
                while True:
                    data = read_frame(stream)
                    self._results.put(pa.ipc.read_record_batch(pa.py_buffer(data), schema))
                    os.write(self._wake, b"\0")
        except (OSError, EOFError, pa.ArrowException):
            self._results.put(None)
        finally:
            # Wakes the copy loop as well.
            with self._wake_lock:
                os.close(self._wake)
                self._wake = -1

    def _wake_up(self) -> None:
        """From threads that do not close the descriptor."""
        with self._wake_lock, contextlib.suppress(OSError):
            if self._wake >= 0:
                os.write(self._wake, b"\0")

    def _take(self, count: int) -> pa.Table:
        """The next `count` rows of what has arrived, in order."""
        table = pa.Table.from_batches(self._rows)
        self._rows = table.slice(count).to_batches() or self._rows[:0]
        self._row_count -= count
        return table.slice(0, count)

    def _answer(self, request: _Request, table: pa.Table) -> EvaluatedRows:
        rule = self._rules[request.rule]
        keep = whole_column(table, KEEP)
        kept = pc.fill_null(pc.struct_field(keep, 0), False).to_pylist()
        failed = dict.fromkeys(nulls_of(keep), "where")
        changed: dict[str, list[Any] | None] = dict.fromkeys(CHANGES)
        for field in self._changed:
            if field not in rule.expressions:
                continue
            column = whole_column(table, CHANGES[field])
            for number in nulls_of(column):
                if kept[number]:
                    failed.setdefault(number, field)
            changed[field] = column.field(0).to_pylist()
        headers = changed["headers"]
        if headers is not None:
            changed["headers"] = [
                [(header["key"] or "", header["value"]) for header in row or ()] for row in headers
            ]
        found = EvaluatedRows(
            kept, failed, changed["key"], changed["value"], changed["headers"], changed["topic"]
        )
        if request.called is None:
            return found
        failures = {
            number: failure
            for number, field in failed.items()
            if (failure := request.called.failures.get((field, number))) is not None
        }
        return found._replace(
            reasons={number: failure.reason for number, failure in failures.items()},
            interrupted={number for number, one in failures.items() if one.is_interrupted},
            halt=request.called.halt,
        )

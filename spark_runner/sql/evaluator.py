"""The Python ends of a job with rules: the worker with the copy loop, and the one that returns.

Imported only in such jobs, since pyarrow takes memory and time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import shutil
import socket
import struct
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.schemas.registry import RegistrySpec, registry_of
from mirrors.domain.schemas.subjects import SubjectSelection
from mirrors.domain.specs import FlowSpec
from mirrors.domain.transforms.rules import TransformRule
from mirrors.function_modules import ModuleRefused, refused_rules
from mirrors.kafka.security.secrets import resolve_mask
from spark_runner import task
from spark_runner.engine.transforms.evaluation import MODULE_REFUSED, EvaluatedRows, Halt, Row
from spark_runner.ipc.messages import Figures, SliceResult, SliceWork
from spark_runner.sql import columns
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
    SECRET,
    changed_fields,
    maps_ids,
    reads_schemas,
    secret_references,
    used_columns,
)
from spark_runner.sql.function_process import CalledFunctions, FunctionThread, result_type
from spark_runner.sql.metrics import TaskMetrics
from spark_runner.sql.schemas import SchemaFiles, ids_of
from spark_runner.sql.user_functions import FunctionCall, UserCode

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_TYPES: Final[dict[str, Any]] = {
    columns.KIND: pa.int32(),
    columns.RULE: pa.int32(),
    columns.TEXT: pa.string(),
    columns.FLUSH: pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_type": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": _HEADERS,
}
_SCHEMAS: Final[pa.Field] = pa.field(columns.SCHEMAS, pa.string())
_OF_REQUESTS: Final = pa.array([RECORD, ARGUMENTS], pa.int32())
_CONNECT_S = 60.0
_SIZE = struct.Struct(">Q")
# One column of a request, from its records.
_VALUES: Final[dict[str, Callable[[Row], Any]]] = {
    "offset": lambda row: row[0].offset,
    "timestamp": lambda row: row[0].timestamp * 1000 if row[0].timestamp >= 0 else None,
    "timestamp_type": lambda row: row[2],
    "key": lambda row: row[1].key,
    "value": lambda row: row[1].value,
}


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


def arrow_schema(rules: Sequence[TransformRule], calls: Sequence[FunctionCall] = ()) -> pa.Schema:
    """What `columns.input_schema` is for Spark."""
    names = (*columns.FIXED, *used_columns(rules))
    secret_names = [SECRET + reference for reference in secret_references(rules)]
    return pa.schema(
        [pa.field(name, _TYPES[name]) for name in names]
        + [pa.field(name, pa.binary()) for name in secret_names]
        + ([_SCHEMAS] if reads_schemas(rules) else [])
        + [pa.field(call.column, result_type(call)) for call in calls]
    )


def secrets_of(rules: Sequence[TransformRule]) -> dict[str, bytes]:
    """The secrets by their columns. Raises SecretUnavailable."""
    return {
        SECRET + reference: resolve_mask(reference).reveal().encode()
        for reference in secret_references(rules)
    }


def copy_records(
    work_json: str, _: Iterable[Any], user_code: UserCode | None = None
) -> Iterator[pa.RecordBatch]:
    """The first worker: runs the copy loop in a thread, and passes its requests to Spark."""
    work = SliceWork.from_json(work_json)

    def run(evaluator: ArrowEvaluator) -> str:
        result = task.run(work, evaluator, evaluator.note)
        evaluator.note(result, is_last=True)
        return result.to_json()

    def failed(message: str, code: str) -> str:
        return SliceResult(ended_because="failed", reason=message, code=code).to_json()

    yield from serve(work.spec, run, failed, user_code)


def serve(
    spec: FlowSpec,
    run: Callable[[ArrowEvaluator], str],
    failed: Callable[[str, str], str],
    user_code: UserCode | None,
) -> Iterator[pa.RecordBatch]:
    """In the first worker: let `run` evaluate rules in a thread; returns what goes to Spark.

    `run` returns the task's result. `failed` makes one of a message and its code.
    """
    task.prepare_worker()
    rules = spec.settings.transforms
    secrets: dict[str, bytes] = {}
    refused: UnderstudyError | None = None
    try:
        secrets = secrets_of(rules)
    except UnderstudyError as error:
        refused = error
    if user_code is None:
        evaluator = ArrowEvaluator(rules, secrets)
    else:
        evaluator = ArrowEvaluator(rules, secrets, user_code.calls)
        # Executors may be on other hosts than the driver.
        evaluator.refused.update({**refused_rules(rules), **user_code.refused})

    def run_to_the_end() -> None:
        result = failed("The task ended without a result.", "defect")
        try:
            result = run(evaluator)
        finally:
            evaluator.end(result)

    try:
        if refused is None and reads_schemas(rules):
            source, target = spec.source, spec.target
            evaluator.read_schemas(
                registry_of(source.alias, source.properties),
                registry_of(target.alias, target.properties) if maps_ids(rules) else None,
                spec.settings.schema_selection,
                waits=spec.settings.sync_schemas_missing == "wait",
            )
    except UnderstudyError as error:
        refused = error
    try:
        if refused is None:
            threading.Thread(target=run_to_the_end, name="with rules", daemon=True).start()
        else:
            evaluator.end(failed(refused.message, refused.code))
        yield from evaluator.batches()
    finally:
        evaluator.close()


def return_records(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The second worker: sends results to the first one; returns what the task's result is.

    The first worker closes the socket when the copy loop has ended, which may be before this one
    has connected. Then only the task's result counts, which follows.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        is_first = is_listening = True
        for batch in batches:
            kinds = batch.column(0).to_pylist()
            try:
                if is_first:
                    connection.settimeout(_CONNECT_S)
                    connection.connect(batch.column(1)[kinds.index(ADDRESS)].as_py())
                    connection.settimeout(None)
                    _send(connection, batch.schema.serialize())
                if is_listening:
                    _send(connection, batch.serialize())
            except (FileNotFoundError, ConnectionError):
                is_listening = False
            is_first = False
            if RESULT in kinds:
                text = batch.column(1)[kinds.index(RESULT)].as_py()
                yield pa.record_batch([pa.array([text])], names=["result"])


def _send(connection: socket.socket, data: pa.Buffer) -> None:
    connection.sendall(_SIZE.pack(data.size))
    connection.sendall(data)


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
                found[name] = _headers_of(rows)
            elif name in fixed:
                found[name] = [fixed[name]] * count
            else:
                value = _VALUES[name]
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
            request.sent = {field.name: _array(found[field.name], field.type) for field in fields}
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
            _array(found[field.name], field.type)
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
                schema = pa.ipc.read_schema(pa.py_buffer(_frame(stream)))
                while True:
                    data = _frame(stream)
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
        keep = _column(table, KEEP)
        kept = pc.fill_null(pc.struct_field(keep, 0), False).to_pylist()
        failed = dict.fromkeys(_nulls(keep), "where")
        changed: dict[str, list[Any] | None] = dict.fromkeys(CHANGES)
        for field in self._changed:
            if field not in rule.expressions:
                continue
            column = _column(table, CHANGES[field])
            for number in _nulls(column):
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


def _array(values: Any, kind: Any) -> Any:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _headers_of(rows: Sequence[Row]) -> Any:
    """The headers of all records, from one list of names and one of values."""
    names: list[str] = []
    values: list[bytes | None] = []
    ends = [0]
    for _, fields, _ in rows:
        for name, value in fields.headers:
            names.append(name)
            values.append(value)
        ends.append(len(names))
    flat = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], names=["key", "value"]
    )
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), flat).cast(_HEADERS)


def _column(table: pa.Table, name: str) -> Any:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _nulls(column: Any) -> list[int]:
    """The numbers of the rows without a value."""
    if not column.null_count:
        return []
    found: list[int] = pc.indices_nonzero(column.is_null()).to_pylist()
    return found


def _frame(stream: Any) -> bytes:
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError
    (size,) = _SIZE.unpack(head)
    data: bytes = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data

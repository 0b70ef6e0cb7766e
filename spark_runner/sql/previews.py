"""Evaluates rules on a few records for a preview: a request file in, a response file out.

Spark evaluates a local relation in the driver while it optimizes the plan, so a preview needs no
slot, and flows go on. Spark's reason for a failure comes from the expression without `TryEval`.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.serializers import ChunkedStream
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import DataType
from pyspark.util import local_connect_and_auth

from mirrors import launcher
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.schemas.subjects import SubjectSelection
from mirrors.domain.transforms.evaluation import (
    MOST_RESULT_BYTES,
    EvaluatedRecord,
    EvaluationRequest,
    EvaluationResponse,
    PathLookup,
    RecordParts,
    Rejection,
    SampledRecord,
)
from mirrors.domain.transforms.preview import count_path
from mirrors.domain.transforms.rules import TransformRule
from mirrors.function_modules import ModuleRefused
from mirrors.kafka.security import live_secrets
from spark_runner.sql.columns import (
    ARGUMENTS,
    CHANGES,
    KEEP,
    KIND,
    RECORD,
    RULE,
    SCHEMAS,
    TEXT,
    input_schema,
    maps_ids,
    reads_schemas,
)
from spark_runner.sql.plan import attempt_of, evaluated, first_line, result_of

log = logging.getLogger("spark_runner.previews")

# Bytes of a request file: base64 of its records, and the rules.
_MOST_FILE_BYTES: Final = 32 << 20
# Spark's reason is determined for this many records that fail, and for this time.
_MOST_MESSAGES: Final = 50
_MESSAGES_S: Final = 15.0
# Calls of user code that take too long or end its process may take this time.
_LOST_S: Final = 15.0
_NO_MESSAGE: Final = "Spark's reason was not determined: many records fail."


class RulePreviews:
    """Evaluates one request at a time, in a thread of its own."""

    def __init__(self, directory: Path, session: Callable[[], SparkSession]) -> None:
        self._directory = directory
        self._session = session
        self._thread: threading.Thread | None = None
        (directory / launcher.PREVIEWS.folder).mkdir(mode=0o700, exist_ok=True)
        # Nobody waits for what a predecessor left.
        launcher.PREVIEWS.remove_old(directory, 0)

    def poll(self) -> None:
        """Begin with the next request, if there is one and none is being evaluated."""
        if self._thread is not None and self._thread.is_alive():
            return
        for number in launcher.PREVIEWS.open_requests(self._directory)[:1]:
            self._thread = threading.Thread(
                target=self._answer, args=(number,), name="preview", daemon=True
            )
            self._thread.start()

    def _answer(self, preview: int) -> None:
        path = launcher.PREVIEWS.request_path(self._directory, preview)
        try:
            if path.stat().st_size > _MOST_FILE_BYTES:
                response = EvaluationResponse(error="The request is too large for a preview.")
            else:
                request = EvaluationRequest.from_json(path.read_text(encoding="utf-8"))
                response = evaluate(self._session(), request)
        except FileNotFoundError:
            # Nobody waits for the response any more.
            return
        except launcher.NOT_OURS as error:
            reason = f"The runner cannot read the request ({type(error).__name__})."
            response = EvaluationResponse(error=f"{reason} Restart the runner after an update.")
        except UnderstudyError as error:
            # A secret that is missing here.
            response = EvaluationResponse(error=error.message)
        except (PySparkException, Py4JError, OSError, ImportError) as error:
            # Its text may quote a record.
            log.warning("Preview %s failed: %s", preview, type(error).__name__)
            response = EvaluationResponse(error=f"Spark could not evaluate it: {_reason(error)}")
        # A preview that was given up has no request any more.
        if path.exists():
            launcher.write_whole(
                launcher.PREVIEWS.response_path(self._directory, preview), response.to_json()
            )
            path.unlink(missing_ok=True)


def evaluate(session: SparkSession, request: EvaluationRequest) -> EvaluationResponse:
    """What the rules make of the records. Raises what Spark raises, except for a rejected rule."""
    with tempfile.TemporaryDirectory(prefix="understudy-schemas-") as folder:
        if reads_schemas(request.rules):
            _fetch_schemas(request, Path(folder))
        return _evaluate(session, request, folder)


def _fetch_schemas(request: EvaluationRequest, folder: Path) -> None:
    # The client is imported only where rules need it.
    from spark_runner.sql.schemas import SchemaFiles, ids_of  # noqa: PLC0415

    parts = (part for record in request.records for part in record.parts[:2])
    target = request.target_registry if maps_ids(request.rules) else None
    names = SubjectSelection(template=request.subject_format)
    SchemaFiles(request.registry, target, folder, names).fetch(ids_of(parts))


def _evaluate(session: SparkSession, request: EvaluationRequest, folder: str) -> EvaluationResponse:
    calls_modules = any(rule.modules for rule in request.rules)
    code = _UserCode(session, request) if calls_modules else None
    replaced = code.calls.replaced if code is not None else {}
    rows = _relation(session, request, folder, code=code)
    rejections = tuple(_rejections(rows, request.rules, replaced))
    if rejections:
        return EvaluationResponse(rejections=rejections)
    rule = request.rules[request.rule]
    if code is not None:
        code.call(_relation(session, request, folder, code=code, kind=ARGUMENTS))
        rows = _relation(session, request, folder, code=code)
    calls = code.calls if code is not None else None
    found = {int(row[TEXT]): row for row in evaluated(rows, request.rules, calls).collect()}
    results: list[EvaluatedRecord] = []
    size = failures = 0
    until = time.monotonic() + _MESSAGES_S
    for number, record in enumerate(request.records):
        row = found[number]
        if failed := _failed_field(row, rule):
            failures += 1
            message = _NO_MESSAGE
            if failures <= _MOST_MESSAGES and time.monotonic() < until:
                message = _failure(session, request, folder, number, failed, code)
            results.append(EvaluatedRecord(failed, message, None))
            continue
        is_kept = row[KEEP]["v"] is True
        route = row[CHANGES["topic"]]["v"] if is_kept and rule.topic is not None else None
        if route is not None and route not in rule.routes:
            message = f"It gives {route[:60]!r}, which is not in routes."
            results.append(EvaluatedRecord("topic", message, None))
            continue
        after = _parts(row, rule, record) if is_kept else None
        size += after.bytes if after is not None else 0
        if size > MOST_RESULT_BYTES:
            error = f"The rules make more than {MOST_RESULT_BYTES >> 20} MiB of these records."
            return EvaluationResponse(error=f"{error} Preview fewer of them.")
        results.append(EvaluatedRecord("", "", after, route or ""))
    return EvaluationResponse(records=tuple(results), matches=_count_paths(rows, request.lookups))


def _count_paths(rows: DataFrame, lookups: Iterable[PathLookup]) -> tuple[int | None, ...]:
    """How many of the records have each path."""
    read: dict[str, list[Any]] = {}
    counts = []
    for reader, column, path in lookups:
        text = f"{reader}({column})"
        if text not in read:
            found = attempt_of(text, "value").alias("found")
            read[text] = [row["found"] for row in rows.select(found).collect()]
        documents = [row["v"] for row in read[text] if row is not None]
        counts.append(count_path(path, documents, len(read[text]) - len(documents)))
    return tuple(counts)


class _UserCode:
    """What functions of modules return for the records. Raises ModuleRefused."""

    def __init__(self, session: SparkSession, request: EvaluationRequest) -> None:
        # Only previews of such rules need it.
        from spark_runner.sql.module_calls import ModuleCalls  # noqa: PLC0415

        self._request = request
        self.calls = ModuleCalls(session, request.rules)
        # Columns of the records; none before the functions are called.
        self.results: dict[str, Any] = {}

    def call(self, rows: DataFrame) -> None:
        """Call the functions, as the copy loop does. `rows` are of the kind ARGUMENTS."""
        from spark_runner.sql.function_process import FunctionProcess  # noqa: PLC0415

        rule = self._request.rule
        arguments = self.calls.collected(evaluated(rows, self._request.rules, self.calls))
        process = FunctionProcess(self.calls.calls, lost_s=_LOST_S)
        try:
            found = process.results(rule, arguments)
        finally:
            process.close()
        if found.halt is not None:
            raise ModuleRefused(f"Preview fewer records: {found.halt.reason}.")
        self.results = found.columns


def _rejections(
    rows: DataFrame,
    rules: Iterable[TransformRule],
    replaced: Mapping[tuple[int, str], Column],
) -> Iterable[Rejection]:
    """Each expression that Spark does not accept, also of rules for other topics."""
    for number, rule in enumerate(rules, 1):
        for field, text in rule.expressions.items():
            try:
                rows.select(result_of(replaced.get((number - 1, field), text), field))
            except PySparkException as error:
                yield Rejection(number, field, _reason(error))


def _failure(
    session: SparkSession,
    request: EvaluationRequest,
    folder: str,
    number: int,
    field: str,
    code: _UserCode | None,
) -> str:
    """Spark's reason why the expression fails for this record."""
    text = request.rules[request.rule].expressions[field]
    replaced = code.calls.replaced if code is not None else {}
    rows = _relation(session, request, folder, number, code)
    try:
        rows.select(result_of(replaced.get((request.rule, field), text), field)).collect()
    # PySpark has no class for some of Spark's exceptions.
    except (PySparkException, Py4JJavaError) as error:
        return _reason(error)
    return "Spark gives no reason: evaluated alone, the expression does not fail."


def _failed_field(row: Any, rule: TransformRule) -> str:
    """The field whose expression failed, as in the copy loop; empty if none did."""
    if row[KEEP] is None:
        return "where"
    if row[KEEP]["v"] is True:
        for field, column in CHANGES.items():
            if field in rule.expressions and row[column] is None:
                return field
    return ""


def _parts(row: Any, rule: TransformRule, record: SampledRecord) -> RecordParts:
    """The record after its rule."""
    parts = record.parts
    changes: dict[str, Any] = {
        field: row[column]["v"]
        for field, column in CHANGES.items()
        if field in rule.expressions and field != "topic"
    }
    for field in ("key", "value"):
        if changes.get(field) is not None:
            changes[field] = bytes(changes[field])
    if "headers" in changes:
        changes["headers"] = tuple(
            (header["key"] or "", None if header["value"] is None else bytes(header["value"]))
            for header in changes["headers"] or ()
        )
    return parts._replace(**changes)


def _relation(
    session: SparkSession,
    request: EvaluationRequest,
    folder: str,
    only: int | None = None,
    code: _UserCode | None = None,
    kind: int = RECORD,
) -> DataFrame:
    """The records as the copy loop sends them; `_text` is their number."""
    # pyarrow takes memory that runners without rules do not need.
    import pyarrow as pa  # noqa: PLC0415

    from spark_runner.sql.arrow_columns import arrow_schema  # noqa: PLC0415
    from spark_runner.sql.workers import secrets_of  # noqa: PLC0415

    calls = code.calls.calls if code is not None else ()
    schema, secrets = arrow_schema(request.rules, calls), secrets_of(request.rules)
    numbered = list(enumerate(request.records))
    chosen = numbered if only is None else numbered[only : only + 1]
    fixed = secrets | {SCHEMAS: folder, KIND: kind}
    rows = [_row(request, number, record) | fixed for number, record in chosen]
    table = pa.Table.from_pylist(rows, schema)
    for name, column in code.results.items() if code is not None else ():
        chosen_column = column if only is None else column.slice(only, 1)
        table = table.set_column(schema.get_field_index(name), name, chosen_column)
    jvm: Any = session.sparkContext._jvm
    types = DataType.fromDDL(input_schema(request.rules, calls))
    batches = _sent(jvm, table)
    java: Any = session._jsparkSession
    return DataFrame(jvm.PythonSQLUtils.toDataFrame(batches, types.json(), java), session)


def _sent(jvm: Any, table: Any) -> Any:
    """The table in Spark's Java process.

    createDataFrame would need pandas, and it writes the rows, which have secrets, to a file.
    """
    import pyarrow as pa  # noqa: PLC0415

    server = jvm.ArrowIteratorServer()
    file, connection = local_connect_and_auth(server.connInfo(), server.secret())
    with contextlib.closing(connection):
        stream = cast(Any, ChunkedStream)(file, 8192)
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        stream.close()
        return server.getResult()


def _row(request: EvaluationRequest, number: int, record: SampledRecord) -> dict[str, Any]:
    parts = record.parts
    return {
        RULE: request.rule,
        TEXT: str(number),
        "topic": request.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000 if record.timestamp >= 0 else None,
        "timestamp_type": int(record.is_append_time),
        "key": parts.key,
        "value": parts.value,
        "headers": [{"key": name, "value": data} for name, data in parts.headers],
    }


def _reason(error: Exception) -> str:
    """Spark's own sentence, without a secret's value."""
    return f"{live_secrets.hide(first_line(error, most=1000))}."

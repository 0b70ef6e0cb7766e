"""The job of one epoch of a slice with rules, as a DataFrame.

`TryEval` and `ExpressionUtils` are internal classes of Spark. `TryEval` returns null instead of
raising, so a struct around a value tells "failed" and "null" apart, record by record.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from mirrors.domain.transforms.functions import COLUMNS
from mirrors.domain.transforms.rules import TransformRule
from mirrors.function_modules import refused_rules
from spark_runner.ipc.messages import SliceResult, SliceWork
from spark_runner.sql import functions
from spark_runner.sql.columns import (
    BATCH_ROWS,
    CHANGES,
    FIGURES,
    KEEP,
    KIND,
    RECORD,
    RULE,
    TEXT,
    changed_fields,
    input_schema,
)
from spark_runner.sql.functions import tried

if TYPE_CHECKING:
    # It imports pyarrow.
    from spark_runner.sql.module_calls import ModuleCalls

# Codes in Spark's messages, such as [USER_RAISED_EXCEPTION]; a person looks for the words.
_ERROR_CLASS = re.compile(r"(?:^|(?<=Exception: ))\[[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*\] ")
_SQL_STATE = re.compile(r"\.? ?\bSQLSTATE: [0-9A-Z]{5}(?=$|;| \()")
# What Spark casts each expression to.
_RESULTS = {
    "where": "boolean",
    "topic": "string",
    "key": "binary",
    "value": "binary",
    "headers": COLUMNS["headers"],
}
_SETTINGS = {
    # Otherwise Spark puts values of the environment in place of ${env:NAME}, before it parses.
    "spark.sql.variable.substitute": "false",
    # A failed cast is a failed record, not a null.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    # Each batch is passed on at once.
    "spark.sql.execution.pandas.udf.buffer.size": "4096",
    # Otherwise Spark evaluates an expression that occurs twice outside of TryEval, once.
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
}


def open_session(context: SparkContext, directory: Path, cache: Path) -> SparkSession:
    """A session of its own, with the settings and functions that the evaluation needs.

    `directory` is for files of this runner, `cache` for those of all runners of this machine.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # They print what is raised as well.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    session = SparkSession(context).newSession()
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    functions.register(session, directory, cache)
    functions.remove_refused(session)
    return session


def run_with_rules(session: SparkSession, work: SliceWork) -> SliceResult:
    """Run the epoch; blocks until it has ended. Raises what Spark raises."""
    # pyarrow takes memory that runners without rules do not need.
    from spark_runner.sql.workers import copy_records  # noqa: PLC0415

    first_worker = functools.partial(copy_records, work.to_json())
    return SliceResult.from_json(
        evaluate_in_job(session, work.spec.settings.transforms, first_worker)
    )


def evaluate_in_job(
    session: SparkSession,
    rules: Sequence[TransformRule],
    first_worker: Callable[..., Iterable[Any]],
) -> str:
    """The result of one task that evaluates rules (`evaluator.serve`). Raises what Spark raises.

    `first_worker` gets `user_code` if a rule calls functions of modules.
    """
    from spark_runner.sql.workers import return_records  # noqa: PLC0415

    calls: ModuleCalls | None = None
    if any(rule.modules for rule in rules):
        from spark_runner.sql import module_calls, user_functions  # noqa: PLC0415

        refused = refused_rules(rules)
        calls = module_calls.ModuleCalls(session, rules, refused)
        code = user_functions.UserCode(tuple(calls.calls), refused)
        first_worker = functools.partial(first_worker, user_code=code)
    schema = input_schema(rules, calls.calls if calls is not None else ())
    rows = map_in_arrow(session.range(0, 1, 1, 1), first_worker, schema)
    results = map_in_arrow(evaluated(rows, rules, calls), return_records, "result string")
    [[text]] = results.collect()
    return str(text)


def map_in_arrow(
    rows: DataFrame, function: Callable[[Iterable[Any]], Iterable[Any]], schema: str
) -> DataFrame:
    """DataFrame.mapInArrow, which would also need pandas."""
    kind = DataType.fromDDL(schema)
    mapped = UserDefinedFunction(
        function, returnType=kind, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    java: Any = mapped(*[f.col(f"`{name}`") for name in rows.columns])._jc
    return DataFrame(rows._jdf.mapInArrow(java, False, None), rows.sparkSession)


def evaluated(
    rows: DataFrame, rules: Sequence[TransformRule], calls: ModuleCalls | None = None
) -> DataFrame:
    """The kind, the text and the results of each row. Raises what Spark says of an expression.

    With `calls` also the arguments of user code.
    """
    replaced: Mapping[tuple[int, str], Column] = calls.replaced if calls is not None else {}

    def attempt(index: int, field: str, text: str) -> Column:
        return attempt_of(replaced.get((index, field), text), field)

    where = [
        # Its results are not known in rows of the kind ARGUMENTS.
        f.when(f.col(KIND) == RECORD, attempt(index, "where", rule.where or "true"))
        if (index, "where") in replaced
        else attempt(index, "where", rule.where or "true")
        for index, rule in enumerate(rules)
    ]
    kept = rows.withColumn(KEEP, _by_rule(where))
    is_kept = f.col(KIND).eqNullSafe(RECORD) & f.col(f"{KEEP}.v").eqNullSafe(True)
    figures = f.call_function(functions.TASK_FIGURES, f.col(TEXT))
    text = f.when(f.col(KIND) == FIGURES, figures).otherwise(f.col(TEXT)).alias(TEXT)
    found = [f.col(KIND), text, f.col(KEEP)]
    for field in changed_fields(rules):
        texts = [rule.expressions.get(field) for rule in rules]
        attempts = [
            None if text is None else attempt(index, field, text)
            for index, text in enumerate(texts)
        ]
        found.append(f.when(is_kept, _by_rule(attempts)).alias(CHANGES[field]))
    return kept.select(*found, *(calls.arguments if calls is not None else ()))


def _by_rule(attempts: Sequence[Column | None]) -> Column:
    chosen: Any = f
    for number, attempt in enumerate(attempts):
        if attempt is not None:
            chosen = chosen.when(f.col(RULE) == number, attempt)
    found: Column = chosen
    return found


def result_of(expression: str | Column, field: str) -> Column:
    """The value of the expression, of the type that its field has."""
    column = f.expr(expression) if isinstance(expression, str) else expression
    return column.cast(_RESULTS[field])


def attempt_of(expression: str | Column, field: str) -> Column:
    """A struct with the value of the expression, or null if it failed."""
    return tried(f.struct(result_of(expression, field).alias("v")))


def first_line(error: Exception, *, most: int = 300) -> str:
    """Spark's own words without its codes and the stack trace, of at most this many characters."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error)
    line = _ERROR_CLASS.sub("", text.strip().split("\n", 1)[0], count=1)
    return _SQL_STATE.sub("", line).rstrip(".; ")[:most]

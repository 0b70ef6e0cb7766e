"""The two Python workers of a job with rules: one with the copy loop, and one that returns.

Imported only in such jobs, since pyarrow takes memory and time.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.schemas.registry import registry_of
from mirrors.domain.specs import FlowSpec
from mirrors.domain.transforms.rules import TransformRule
from mirrors.function_modules import refused_rules
from mirrors.kafka.security.secrets import resolve_mask
from spark_runner import task
from spark_runner.ipc.messages import SliceResult, SliceWork
from spark_runner.sql.arrow_columns import send_frame
from spark_runner.sql.columns import (
    ADDRESS,
    RESULT,
    SECRET,
    maps_ids,
    reads_schemas,
    secret_references,
)
from spark_runner.sql.evaluator import ArrowEvaluator
from spark_runner.sql.user_functions import UserCode

_CONNECT_S = 60.0


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
                    send_frame(connection, batch.schema.serialize())
                if is_listening:
                    send_frame(connection, batch.serialize())
            except (FileNotFoundError, ConnectionError):
                is_listening = False
            is_first = False
            if RESULT in kinds:
                text = batch.column(1)[kinds.index(RESULT)].as_py()
                yield pa.record_batch([pa.array([text])], names=["result"])

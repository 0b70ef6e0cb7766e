"""User code between two evaluations of Spark, without brokers: requests, answers, the plan."""

from __future__ import annotations

import functools
import json
import select
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mirrors.domain.transforms.modules import FUNCTIONS_DIR, Module, digest_of
from mirrors.domain.transforms.rules import TransformRule
from spark_runner.engine.batches.record_bytes import RecordBytes
from spark_runner.engine.transforms.evaluation import Row
from spark_runner.engine.transforms.record_fields import RecordFields, headers_part_of, part_of
from spark_runner.spark.java import cache_directory
from spark_runner.sql import plan
from spark_runner.sql.columns import ARGUMENTS, RECORD
from spark_runner.sql.user_functions import UserCode
from tests.spark.conftest import FUNCTIONS
from tests.spark.local_session import builder

TEXTS = Module("texts", digest_of(FUNCTIONS.encode()))
RULE = TransformRule(
    topics=".*t",
    where="texts.is_wanted(value)",
    value="texts.shout(value, cast(partition as string))",
    key="cast(concat(cast(key as string), texts.nap(value)) as binary)",
    modules=(TEXTS,),
)
PLAIN = TransformRule(topics="plain", where="value <> 'x'", value="upper(cast(value as string))")
# A failed argument, a failed function whose result is not used, and one whose result is.
ODD = TransformRule(
    topics="odd",
    value="case when offset = 1 then value else texts.shout(value, cast(10 / (offset - 3) as "
    "string)) end",
    modules=(TEXTS,),
)
RULES = (RULE, PLAIN, ODD)
# Sizes of requests around those of Spark's batches.
SIZES = (1, 3, 498, 500, 997, 1)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, functions: Path) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FUNCTIONS_DIR, str(functions))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # Another module may have started the process's Java, without the variable.
        variable = f"spark.executorEnv.{FUNCTIONS_DIR}"
        spark = builder("local[1]").config(variable, str(functions)).getOrCreate()
        yield plan.open_session(
            spark.sparkContext, tmp_path_factory.mktemp("jars"), cache_directory()
        )
        spark.stop()


def _row(offset: int, value: bytes | None) -> Row:
    rest = part_of(b"k") + part_of(value) + headers_part_of([])
    return RecordBytes(offset, 0, 0, rest), RecordFields(rest), 0


def _answers(rules: tuple[TransformRule, ...], requests: list[tuple[int, list[bytes]]]) -> Any:
    """The first worker: asks one request after the other, and returns all answers.

    Also how many rows of each kind it sent, and the names of its threads.
    """

    def first_worker(_: Iterable[Any], user_code: UserCode | None = None) -> Iterator[Any]:
        from spark_runner.sql.evaluator import ArrowEvaluator  # noqa: PLC0415

        calls = user_code.calls if user_code is not None else ()
        evaluator = ArrowEvaluator(rules, {}, calls)
        found: list[Any] = []
        sent: Counter[int] = Counter()

        def ask() -> None:
            until = time.monotonic() + 200
            for rule, values in requests:
                rows = [_row(offset, value) for offset, value in enumerate(values)]
                evaluator.send(rule, "t", 3, rows)
                answers: list[Any] = []
                while not answers and time.monotonic() < until:
                    select.select([evaluator.fileno()], [], [], 1)
                    answers = evaluator.receive()
                for one in answers:
                    texts = [value and value.decode() for value in one.values or ()]
                    keys = [key and key.decode() for key in one.keys or ()]
                    failed, reasons = sorted(one.failed.items()), sorted(one.reasons.items())
                    found.append([one.kept, failed, texts, keys, reasons, one.halt])
            threads = [thread.name for thread in threading.enumerate()]
            evaluator.end(json.dumps([found, sent, threads, user_code is not None]))

        threading.Thread(target=ask, daemon=True).start()
        for batch in evaluator.batches():
            sent.update(batch.column(0).to_pylist())
            yield batch
        evaluator.close()

    return first_worker


def test_each_request_is_answered_at_once_whatever_its_size(session: SparkSession) -> None:
    requests = [
        (0, [b"drop" if at % 5 == 4 else b"v%d" % at for at in range(size)]) for size in SIZES
    ]
    requests += [(1, [b"a", b"x"]), (0, [b"50%", b"drop%", b"z"]), (2, [b"a", b"%", b"%", b"b"])]
    answer = plan.evaluate_in_job(session, RULES, _answers(RULES, requests))
    found, sent, threads, _ = json.loads(answer)
    assert len(found) == len(requests)
    for (_, values), (kept, failed, after, keys, _, halt) in zip(
        requests[: len(SIZES)], found, strict=False
    ):
        assert (failed, halt) == ([], None)
        assert kept == [value != b"drop" for value in values]
        for at, value in enumerate(values):
            if value != b"drop":
                assert (after[at], keys[at]) == (f"{value.decode().upper()}3", f"k{len(value)}")
    plain, failing, odd = found[len(SIZES) :]
    assert (plain[0], plain[2][0]) == ([True, False], "A")
    assert (failing[0], failing[1], failing[2][2]) == ([True, False, True], [[0, "value"]], "Z3")
    assert failing[4] == [[0, "texts.shout raised ValueError"]]
    assert odd[1] == [[2, "value"], [3, "value"]]
    # An argument that fails is no failure of the function.
    assert odd[4] == [[2, "texts.shout raised ValueError"]]
    assert (odd[2][0], odd[2][1]) == ("A-3.3333333333333335", "%")
    # Two passes for the records of rules with user code, one for the others.
    twice = sum(SIZES) + 3 + 4
    assert (sent[str(ARGUMENTS)], sent[str(RECORD)]) == (twice, twice + 2)
    assert "user code" in threads


def test_a_record_that_ends_the_process_fails_and_the_next_request_is_answered(
    session: SparkSession,
) -> None:
    requests = [(0, [b"a", b"die", b"b"]), (0, [b"c"])]
    found = json.loads(plan.evaluate_in_job(session, RULES, _answers(RULES, requests)))[0]
    assert found[0][1] == [[1, "key"]]
    assert found[0][4] == [[1, "texts.nap ended its process (exit code 3)"]]
    assert (found[0][2][2], found[1][2]) == ("B3", ["C3"])


def test_a_module_that_the_child_refuses_halts_its_requests(
    session: SparkSession, functions: Path
) -> None:
    source = b"""\
from pyspark.sql.functions import arrow_udf
from pyspark.sql.types import BinaryType
import no_such_package

@arrow_udf(BinaryType())
def same(values):
    return values
"""
    (functions / "broken.py").write_bytes(source)
    module = Module("broken", digest_of(source))
    rules = (TransformRule(topics=".*", value="broken.same(value)", modules=(module,)), PLAIN)
    answer = plan.evaluate_in_job(session, rules, _answers(rules, [(0, [b"a"]), (1, [b"a"])]))
    (refused, plain), *_ = json.loads(answer)
    number, code, reason = refused[5]
    assert (number, code, refused[0]) == (0, "module_refused", [False])
    assert reason.startswith("broken.py cannot be loaded: ModuleNotFoundError: No module named")
    assert plain[2] == ["A"]


def test_rules_without_user_code_have_no_second_pass_no_thread_and_the_same_plan(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = []
    real = plan.evaluated

    def evaluated(*given: Any) -> Any:
        plans.append(real(*given))
        return plans[-1]

    monkeypatch.setattr(plan, "evaluated", evaluated)
    # Nothing that prepares user code may be called.
    monkeypatch.setitem(sys.modules, "spark_runner.sql.module_calls", None)
    monkeypatch.delattr(plan, "refused_rules")
    rules = (PLAIN,)
    answer = plan.evaluate_in_job(session, rules, _answers(rules, [(0, [b"a", b"x"])]))
    found, sent, threads, has_code = json.loads(answer)
    assert (found[0][0], found[0][2][0]) == ([True, False], "A")
    assert (sent[str(RECORD)], str(ARGUMENTS) in sent) == (2, False)
    assert "user code" not in threads
    assert not has_code
    shown = plans[0]._jdf.queryExecution().executedPlan().toString()
    assert shown.count("MapInArrow") == 1, shown
    assert not any(word in shown for word in ("_argument_", "_result_", "ArrowEvalPython"))


@pytest.mark.alone
def test_user_code_evaluates_thousands_of_records_a_second(session: SparkSession) -> None:
    """Records of 1 KB in requests of 4000, two of them open, as the copy loop sends them.

    `-s` shows the figures of docs/operations/flows/user-code.md.
    """
    shout = TransformRule(topics=".*", value="texts.shout(value, '!')", modules=(TEXTS,))
    upper = TransformRule(topics=".*", value="upper(cast(value as string))")
    found = {}
    for rules in ((shout,), (upper,)):
        first_worker = functools.partial(_timed, rules)
        rate = float(plan.evaluate_in_job(session, rules, first_worker))
        found[rules[0].expressions["value"]] = round(rate)
    print(f"records per second: {found}")  # noqa: T201
    assert min(found.values()) > 2000


def _timed(
    rules: tuple[TransformRule, ...], _: Iterable[Any], user_code: UserCode | None = None
) -> Iterator[Any]:
    """The first worker: records per second, after the first requests, which start everything."""
    from spark_runner.sql.evaluator import ArrowEvaluator  # noqa: PLC0415

    evaluator = ArrowEvaluator(rules, {}, user_code.calls if user_code is not None else ())

    def ask() -> None:
        rows = [_row(offset, b"%01000d" % offset) for offset in range(4000)]
        began = 0.0
        waiting = answered = first = 0
        while answered < 28:
            if waiting < 2:
                evaluator.send(0, "t", 3, rows)
                waiting += 1
                continue
            select.select([evaluator.fileno()], [], [], 1)
            arrived = evaluator.receive()
            waiting -= len(arrived)
            answered += len(arrived)
            if answered >= 3 and not first:
                began, first = time.monotonic(), answered
        evaluator.end(str((answered - first) * len(rows) / (time.monotonic() - began)))

    threading.Thread(target=ask, daemon=True).start()
    yield from evaluator.batches()
    evaluator.close()

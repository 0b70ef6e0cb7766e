"""User code in its process, without Spark: records that fail, time limits, crashes, the file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mirrors.domain.transforms.modules import FUNCTIONS_DIR, digest_of
from mirrors.function_modules import ModuleRefused
from spark_runner.sql import function_process
from spark_runner.sql.function_process import CalledFunctions, FunctionProcess, FunctionThread
from spark_runner.sql.user_functions import FunctionCall
from tests.spark.conftest import FUNCTIONS, MASK_VARIABLE

SHA256 = digest_of(FUNCTIONS.encode())
TEXT = pa.struct([pa.field("v", pa.string())])
BYTES = pa.struct([pa.field("v", pa.binary())])


@pytest.fixture(autouse=True)
def directory(functions: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FUNCTIONS_DIR, str(functions))
    return functions


@pytest.fixture
def process() -> Iterator[Callable[..., FunctionProcess]]:
    """Makes processes, and ends them."""
    made: list[FunctionProcess] = []

    def make(*calls: FunctionCall, lost_s: float = 60) -> FunctionProcess:
        made.append(FunctionProcess(calls, lost_s=lost_s))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a module does not count."""
    monkeypatch.setattr(function_process, "CALL_S", 3.0)


def call(name: str = "shout", result: str = "binary", arguments: int = 2) -> FunctionCall:
    columns = tuple(f"a{at}" for at in range(arguments))
    return FunctionCall(0, "value", "texts", SHA256, name, result, columns, f"of_{name}")


NAP = call("nap", "bigint", 1)


def table(values: list[bytes | None]) -> pa.Table:
    """None: a record that the function does not see."""
    structs = [None if value is None else {"v": value} for value in values]
    marks = [None if one is None else {"v": "!"} for one in structs]
    return pa.table({"a0": pa.array(structs, BYTES), "a1": pa.array(marks, TEXT)})


def rows(found: CalledFunctions, one: FunctionCall) -> list[Any]:
    return [row and (row["v"], row["error"]) for row in found.columns[one.column].to_pylist()]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def reasons(found: CalledFunctions) -> dict[int, str]:
    return {number: failure.reason for (_, number), failure in found.failures.items()}


def test_each_record_has_its_result_and_a_failed_one_its_reason(process: Any) -> None:
    values = [b"v%d" % number for number in range(1200)]
    given: list[bytes | None] = [*values[:7], None, b"50%", *values[7:], b"%", None]
    found = process(call()).results(0, table(given))
    failed = (None, "texts.shout raised ValueError: a percent sign")
    assert rows(found, call()) == [
        None if value is None else failed if b"%" in value else (value.upper() + b"!", None)
        for value in given
    ]
    # What a page shows does not quote the record.
    assert reasons(found) == dict.fromkeys((8, 1202), "texts.shout raised ValueError")
    assert not any(failure.is_interrupted for failure in found.failures.values())
    assert found.halt is None


def test_a_null_that_the_function_sees_is_no_missing_record(process: Any) -> None:
    given = pa.table(
        {"a0": pa.array([{"v": None}, {"v": b"b"}], BYTES), "a1": table([b"a", b"b"])["a1"]}
    )
    assert rows(process(call()).results(0, given), call()) == [(None, None), (b"B!", None)]


def test_without_a_record_that_it_sees_no_process_starts(
    process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    one = process(call())
    assert rows(one.results(0, table([None, None])), call()) == [None, None]
    assert one.results(1, table([b"a"])) == CalledFunctions({}, {}, None)


@pytest.mark.parametrize("value", [b"slow", b"busy"])
@pytest.mark.usefixtures("short")
def test_a_record_that_takes_too_long_fails_alone(process: Any, value: bytes) -> None:
    found = process(NAP).results(0, table([b"a", value, b"bcd"]))
    late = "texts.nap took longer than 3 s"
    assert rows(found, NAP) == [(1, None), (None, late), (3, None)]
    assert found.failures["value", 1] == (late, True)


def test_a_record_that_ends_the_process_fails_alone_and_others_have_results(process: Any) -> None:
    one = process(NAP)
    found = one.results(0, table([b"a", b"die", b"bcd", b"die", *[b"x"] * 600]))
    ended = "texts.nap ended its process (exit code 3)"
    assert rows(found, NAP)[:5] == [(1, None), (None, ended), (3, None), (None, ended), (1, None)]
    assert rows(found, NAP)[5:] == [(1, None)] * 599
    assert found.failures["value", 1] == (ended, True)
    assert rows(one.results(0, table([b"die"])), NAP) == [(None, ended)]


def test_a_record_that_needs_too_much_memory_fails_alone(process: Any) -> None:
    found = process(NAP).results(0, table([b"a", b"grow", b"bcd"]))
    assert [value for value, _ in rows(found, NAP)] == [1, None, 3]
    assert reasons(found) == {1: "texts.nap raised MemoryError"}


def test_after_a_minute_of_interruptions_the_rest_is_not_called(process: Any) -> None:
    one = process(NAP, lost_s=0)
    found = one.results(0, table([b"ab", b"die", b"c", b"d"]))
    assert found.halt is not None
    # At least one record has its result, so each attempt moves on.
    assert found.halt.number == 1
    assert found.halt.code == "user_code_interrupted"
    assert "at last since texts.nap ended its process (exit code 3)" in found.halt.reason
    assert rows(found, NAP) == [(2, None), None, None, None]
    assert one.results(0, table([b"c", b"d"])).halt is None


def test_a_process_that_somebody_kills_fails_no_record(process: Any) -> None:
    pid = call("process", "bigint", 1)
    one = process(pid, NAP._replace(rule=1))
    [(first, _)] = rows(one.results(0, table([b"a"])), pid)
    os.kill(first, signal.SIGKILL)
    [(second, _)] = rows(one.results(0, table([b"a"])), pid)
    assert second != first
    # Also in the middle of a call.
    timer = threading.Timer(1, os.kill, (second, signal.SIGKILL))
    timer.start()
    while timer.is_alive():
        found = one.results(1, table([b"a"] * 20_000))
        assert found.failures == {}
        assert rows(found, NAP) == [(1, None)] * 20_000


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("too_few", "texts.too_few returned 0 values for 1 record"),
        ("of_another_type", "texts.of_another_type returned binary, not int64"),
        ("listed", "texts.listed returned list, not pyarrow.Array"),
    ],
)
def test_a_result_that_does_not_fit_is_a_failure(process: Any, name: str, reason: str) -> None:
    one = call(name, "bigint", 1)
    found = process(one).results(0, table([b"a"]))
    assert rows(found, one) == [(None, reason)]
    assert reasons(found) == {0: reason}


def test_another_file_and_another_function_are_not_run(process: Any, directory: Path) -> None:
    with pytest.raises(ModuleRefused, match="the rule is saved for abc"):
        process(call()._replace(sha256="abc")).results(0, table([b"a"]))
    with pytest.raises(ModuleRefused, match=r"texts\.time is no scalar arrow_udf"):
        process(call("time")).results(0, table([b"a"]))


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("import no_such_package", r"broken\.py cannot be loaded: ModuleNotFoundError"),
        ("import os; os._exit(7)", r"ended its process \(exit code 7\) while it was loaded on"),
        ("while True: pass", r"broken\.py took longer than 3 s while it was loaded on"),
    ],
)
def test_a_module_that_cannot_be_loaded_is_refused(
    process: Any, directory: Path, monkeypatch: pytest.MonkeyPatch, source: str, sentence: str
) -> None:
    if "while" in source:
        monkeypatch.setattr(function_process, "LOAD_S", 3.0)
    (directory / "broken.py").write_text(source)
    wanted = call()._replace(module="broken", sha256=digest_of(source.encode()))
    with pytest.raises(ModuleRefused, match=sentence):
        process(wanted).results(0, table([b"a"]))


def test_it_has_no_secret_of_the_environment(process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MASK_VARIABLE, "x")
    one = call("has_variable", "boolean", 1)
    found = process(one).results(0, table([MASK_VARIABLE.encode(), b"PATH"]))
    assert rows(found, one) == [(False, None), (True, None)]


def test_the_end_of_the_task_ends_a_call_and_leaves_nothing(process: Any) -> None:
    before, threads = set(os.listdir("/proc/self/fd")), threading.active_count()
    woken = threading.Event()
    thread: FunctionThread[str] = FunctionThread([NAP], woken.set)
    thread.put("one", 0, table([b"a"]))
    assert woken.wait(60)
    [(key, found)] = thread.done()
    assert isinstance(found, CalledFunctions)
    assert (key, rows(found, NAP)) == ("one", [(1, None)])
    thread.put("two", 0, table([b"slow", b"slow"]))
    time.sleep(0.5)
    thread.close()
    until = time.monotonic() + 8
    while threading.active_count() > threads and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == threads
    assert set(os.listdir("/proc/self/fd")) == before


def test_user_code_ends_with_a_parent_that_is_killed(directory: Path) -> None:
    program = f"""
import pyarrow as pa
from spark_runner.sql.function_process import FunctionProcess
from spark_runner.sql.user_functions import FunctionCall
pid = FunctionCall(0, "value", "texts", {SHA256!r}, "process", "bigint", ("a0",), "of")
nap = pid._replace(rule=1, function="nap")
process = FunctionProcess([pid, nap])
table = pa.table({{"a0": pa.array([{{"v": b"slow"}}] * 2)}})
print(process.results(0, table).columns["of"][0]["v"], flush=True)
process.results(1, table)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(0.5)
        parent.kill()
    until = time.monotonic() + 5
    while is_running(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(child)

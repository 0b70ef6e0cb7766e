"""User code in a child process: its time limits, its end, and a new process after a crash.

- A call has up to 500 records. If it takes too long or its process ends, a new process gets the
  records one by one, so the record is known.
- A record fails when it takes too long alone, or when the process ended twice with it alone. Once
  may be by chance, as when the host is short of memory.
- After `LOST_S` in such attempts, the remaining records are not called. At least one record has its
  result by then, so the partition moves on at each attempt.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from mirrors.domain.transforms.modules import FUNCTIONS_DIR
from mirrors.function_modules import ModuleRefused
from mirrors.installation import code_environment
from spark_runner.engine.transforms.evaluation import USER_CODE_INTERRUPTED, Halt
from spark_runner.sql.columns import BATCH_ROWS
from spark_runner.sql.user_functions import (
    ANSWER,
    REFUSED,
    TYPES,
    FunctionCall,
    receive,
    request,
    send,
)

# Seconds for one call, also for one record alone, and for loading a module.
CALL_S: Final = 10.0
LOAD_S: Final = 30.0
# Seconds that a request may lose by calls that take too long or end the process.
LOST_S: Final = 60.0
_ATTEMPTS: Final = 2
_END_S: Final = 5.0
# Variables that the child has. None of them is a secret.
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "HOME", "TMPDIR", "LD_LIBRARY_PATH", FUNCTIONS_DIR)

_PROGRAM: Final = "spark_runner.sql.user_functions"
_TEXTS: Final = [(name, pa.string()) for name in ANSWER[1:]]

log = logging.getLogger("spark_runner.user_code")

_Key = TypeVar("_Key")


class Failure(NamedTuple):
    """Why a function failed for a record. `reason` names the function and quotes no record.

    `is_interrupted`: it took too long or ended its process, so another attempt may differ.
    """

    reason: str
    is_interrupted: bool


class CalledFunctions(NamedTuple):
    """The results for one request.

    - `columns`: for each call, a struct of value and error; null for a record that it did not see.
    - `failures`: by the field of the expression and the record's number.
    - `halt`: records from there on have no results.
    """

    columns: dict[str, Any]
    failures: dict[tuple[str, int], Failure]
    halt: Halt | None


class _Interrupted(Exception):
    """The process was ended, or has ended. The text follows the name of the function."""

    def __init__(self, text: str, *, is_late: bool = False) -> None:
        super().__init__(text)
        self.is_late = is_late


class FunctionProcess:
    """The child process of one task or one preview; it starts at the first call.

    Only `abort` may be called by another thread. The child ends with the thread that started it.
    """

    def __init__(self, calls: Sequence[FunctionCall], *, lost_s: float = LOST_S) -> None:
        self._calls = calls
        self._lost_s = lost_s
        # When the attempts of this request end; None before the first interruption.
        self._until: float | None = None
        self._interruption = ""
        self._lock = threading.Lock()
        self._is_closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._loaded: set[FunctionCall] = set()

    def results(self, rule: int, arguments: pa.Table) -> CalledFunctions:
        """Call the functions of a rule with columns of arguments. Raises ModuleRefused."""
        calls = [call for call in self._calls if call.rule == rule]
        parts: dict[FunctionCall, list[Any]] = {call: [] for call in calls}
        failures: dict[tuple[str, int], Failure] = {}
        count = end = arguments.num_rows
        self._until = None
        for at in range(0, count, BATCH_ROWS):
            if at and self._is_late():
                end = min(end, at)
            for call in calls:
                size = min(BATCH_ROWS, end - at)
                if size > 0:
                    structs = [_part(arguments, name, at, size) for name in call.arguments]
                    column, known = self._called(call, structs, at, failures)
                    parts[call].append(column)
                    end = min(end, at + known) if known < size else end
        columns = {}
        for call in calls:
            missing = pa.nulls(count - sum(map(len, parts[call])), result_type(call))
            columns[call.column] = pa.concat_arrays([*parts[call], missing])
        return CalledFunctions(columns, failures, self._halt(end) if end < count else None)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._end()

    def abort(self) -> None:
        """Let a call that is under way fail, and no other begin. `close` follows."""
        with self._lock:
            self._is_closed = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()

    def _halt(self, number: int) -> Halt:
        return Halt(
            number,
            USER_CODE_INTERRUPTED,
            f"user code was interrupted several times within {self._lost_s:.0f} s, at last since "
            f"{self._interruption}; correct the module, or wait: the next attempt continues here",
        )

    def _is_late(self) -> bool:
        return self._until is not None and time.monotonic() > self._until

    def _called(
        self,
        call: FunctionCall,
        structs: Sequence[Any],
        at: int,
        failures: dict[tuple[str, int], Failure],
    ) -> tuple[Any, int]:
        """The column of up to 500 records, and the number of the first one that was not called."""
        is_seen = functools.reduce(pc.and_, [one.is_valid() for one in structs])
        seen = pc.indices_nonzero(is_seen)
        if not len(seen):
            return pa.nulls(len(is_seen), result_type(call)), len(is_seen)
        given = [one.take(seen).field(0) for one in structs]
        answers, interrupted = self._answers(call, given, is_first=at == 0)
        schema = pa.schema([("v", TYPES[call.result]), *_TEXTS])
        found = pa.Table.from_batches(answers, schema)
        for number, reason in enumerate(found.column("reason").to_pylist()):
            if reason is not None:
                key = call.field, at + seen[number].as_py()
                failures.setdefault(key, Failure(reason, number in interrupted))
        # Where each record's result is among those.
        places = pc.subtract(pc.cumulative_sum(is_seen.cast(pa.int64())), 1)
        is_known = pc.and_(is_seen, pc.less(places, found.num_rows))
        places = pc.if_else(is_known, places, None)
        values = [found.column(name).combine_chunks().take(places) for name in ("v", "error")]
        column = pa.StructArray.from_arrays(values, ["v", "error"], mask=pc.invert(is_known))
        is_whole = found.num_rows == len(seen)
        return column, len(is_seen) if is_whole else seen[found.num_rows].as_py()

    def _answers(
        self, call: FunctionCall, given: Sequence[Any], *, is_first: bool
    ) -> tuple[list[pa.RecordBatch], set[int]]:
        """Answers for these records, or for the first ones if the time is over.

        The numbers are those of records that the function itself did not answer.
        """
        count = len(given[0])
        if count > 1:
            try:
                return [self._ask(call, given)], set()
            except _Interrupted as error:
                self._note(call, error)
        found: list[pa.RecordBatch] = []
        interrupted: set[int] = set()
        for number in range(count):
            if self._is_late() and (number or not is_first):
                break
            answer, is_answered = self._alone(call, [one.slice(number, 1) for one in given])
            found.append(answer)
            if not is_answered:
                interrupted.add(number)
        return found, interrupted

    def _alone(self, call: FunctionCall, given: Sequence[Any]) -> tuple[pa.RecordBatch, bool]:
        """The answer for one record, and whether it is one of the function."""
        for _ in range(_ATTEMPTS):
            try:
                return self._ask(call, given), True
            except _Interrupted as error:
                text = self._note(call, error)
                if error.is_late:
                    break
        texts = [pa.array([text], pa.string())] * 2
        answer = pa.record_batch([pa.nulls(1, TYPES[call.result]), *texts], names=ANSWER)
        return answer, False

    def _note(self, call: FunctionCall, error: _Interrupted) -> str:
        self._interruption = f"{call.name} {error}"
        if self._until is None:
            self._until = time.monotonic() + self._lost_s
        return self._interruption

    # -- the process

    def _ask(self, call: FunctionCall, given: Sequence[Any]) -> pa.RecordBatch:
        """Raises _Interrupted, ModuleRefused."""
        self._load(call)
        return self._exchange(call, given, CALL_S)

    def _load(self, call: FunctionCall) -> None:
        """Start the process if there is none, and let it load the module. Raises ModuleRefused."""
        for attempt in range(_ATTEMPTS):
            if self._process is None or self._process.poll() is not None:
                self._start()
            if call in self._loaded:
                return
            try:
                answer = self._exchange(call, [], LOAD_S)
            except _Interrupted as error:
                if attempt + 1 < _ATTEMPTS and not error.is_late:
                    continue
                raise ModuleRefused(
                    f"{call.module}.py {error} while it was loaded on {socket.gethostname()}. "
                    "Correct it, then let an admin save the rule again."
                ) from None
            refused = (answer.schema.metadata or {}).get(REFUSED)
            if refused is not None:
                raise ModuleRefused(refused.decode())
            self._loaded.add(call)
            return

    def _start(self) -> None:
        with self._lock:
            self._end()
            if self._is_closed:
                raise ModuleRefused("The task has ended.")
            self._connection, theirs = socket.socketpair()
            with theirs:
                number = theirs.fileno()
                # Without the working directory on its path.
                command = [sys.executable, "-P", "-m", _PROGRAM, str(number), str(os.getpid())]
                self._process = subprocess.Popen(  # noqa: S603 (a fixed argument list)
                    command,
                    stdin=subprocess.DEVNULL,
                    # What user code prints is in the runner's log.
                    stdout=2,
                    env=_environment(os.environ),
                    pass_fds=[number],
                    process_group=0,
                )

    def _exchange(self, call: FunctionCall, given: Sequence[Any], seconds: float) -> pa.RecordBatch:
        """Raises _Interrupted."""
        connection = self._connection
        if connection is None:
            raise _Interrupted("was ended")
        try:
            connection.settimeout(seconds)
            until = time.monotonic() + seconds
            send(connection, request(call, given))
            return receive(connection, until)
        except TimeoutError:
            with self._lock:
                self._end()
            raise _Interrupted(f"took longer than {seconds:.0f} s", is_late=True) from None
        except (EOFError, OSError, pa.ArrowException):
            raise _Interrupted(f"ended its process ({self._how_it_ended()})") from None

    def _how_it_ended(self) -> str:
        code: int | None = None
        with self._lock:
            if self._process is not None:
                # The socket closes shortly before.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = self._process.wait(_END_S)
            self._end()
        if code is None:
            return "it closed its connection"
        if code < 0:
            return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"exit code {code}"

    def _end(self) -> None:
        """End the process and all that it has started. Holds the lock."""
        process, self._process = self._process, None
        self._loaded.clear()
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class FunctionThread(Generic[_Key]):
    """Calls functions for one request after the other, in a thread of its own."""

    def __init__(self, calls: Sequence[FunctionCall], wake: Callable[[], None]) -> None:
        """`wake` is called when results have arrived."""
        self._rules = frozenset(call.rule for call in calls)
        self._process = FunctionProcess(calls)
        self._wake = wake
        self._thread: threading.Thread | None = None
        self._asked: queue.SimpleQueue[tuple[_Key, int, pa.Table] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[_Key, CalledFunctions | Exception]] = (
            queue.SimpleQueue()
        )

    def serves(self, rule: int) -> bool:
        """Whether the rule with this index calls functions."""
        return rule in self._rules

    def put(self, key: _Key, rule: int, arguments: pa.Table) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="user code", daemon=True)
            self._thread.start()
        self._asked.put((key, rule, arguments))

    def done(self) -> Iterator[tuple[_Key, CalledFunctions | Exception]]:
        """Results that have arrived, or ModuleRefused, or an unexpected error."""
        while not self._done.empty():
            yield self._done.get()

    def close(self) -> None:
        """Ends a call that is under way."""
        self._process.abort()
        self._asked.put(None)

    def _run(self) -> None:
        try:
            self._call()
        finally:
            self._process.close()

    def _call(self) -> None:
        while (asked := self._asked.get()) is not None:
            key, rule, arguments = asked
            try:
                found: CalledFunctions | Exception = self._process.results(rule, arguments)
            except ModuleRefused as error:
                found = error
            except Exception as error:  # noqa: BLE001 (the copy loop must not wait for ever)
                # Its text may quote a record.
                where = "".join(traceback.format_tb(error.__traceback__))
                log.error("Calling user code failed: %s\n%s", type(error).__name__, where)
                found = error
            self._done.put((key, found))
            self._wake()


def result_type(call: FunctionCall) -> Any:
    """A struct, so that a null that the function returned differs from no result."""
    return pa.struct([pa.field("v", TYPES[call.result]), pa.field("error", pa.string())])


def _part(table: pa.Table, name: str, at: int, size: int) -> Any:
    return pa.concat_arrays(table.column(name).slice(at, size).chunks)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """No secret of this process."""
    kept = {name: environ[name] for name in (*_KEPT, "PYTHONPATH") if name in environ}
    return code_environment(kept)

"""The child process that runs functions of modules (`function_process` is its parent).

- The file is checked against the SHA-256 of the rule, and exactly its bytes are executed.
- A call gets up to 500 records. If it raises, it is repeated with halves, so the record that fails
  is known; the others have their results.
- The parent ends a call that takes too long by ending this process. So a signal, which does not
  interrupt C code, is not needed here.
- Messages in both directions: eight bytes with the size, and a stream of Arrow.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pyarrow as pa

from mirrors.domain.transforms.modules import Module
from mirrors.function_modules import ModuleRefused, checked_module

# Memory that user code may allocate, with all that it imports.
MOST_BYTES: Final = 1 << 30
# Metadata of a message: the call as JSON; why the function cannot be used.
CALL: Final = b"call"
REFUSED: Final = b"refused"
_SIZE = struct.Struct(">Q")
_LONGEST_ERROR: Final = 1000
_LONGEST_NAME: Final = 100
_SCALAR: Final = 250  # PythonEvalType.SQL_SCALAR_ARROW_UDF
_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG
TYPES: Final[dict[str, Any]] = {
    "binary": pa.binary(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
# Columns of an answer. `error` may quote a record, `reason` does not.
ANSWER: Final = ("v", "error", "reason")
_NOTHING: Final = pa.record_batch([pa.nulls(0)], names=["v"])


class FunctionCall(NamedTuple):
    """A call in an expression.

    - `rule`: its index. `field`: that of the expression. `result`: a type of Spark SQL.
    - `arguments`: columns with a struct around each value, null for records that it does not see.
    - `column`: a struct of the value and the error, null for those records.
    """

    rule: int
    field: str
    module: str
    sha256: str
    function: str
    result: str
    arguments: tuple[str, ...]
    column: str

    @property
    def name(self) -> str:
        return f"{self.module}.{self.function}"


class UserCode(NamedTuple):
    """What the driver says of user code: its calls, and why that of a rule cannot be used there."""

    calls: tuple[FunctionCall, ...] = ()
    refused: Mapping[int, str] = MappingProxyType({})


def request(call: FunctionCall, arguments: Sequence[Any]) -> pa.RecordBatch:
    """A message to the child. Without arguments it only loads the module."""
    names = [str(at) for at in range(len(arguments))]
    batch = pa.record_batch(list(arguments), names=names) if names else _NOTHING
    return batch.replace_schema_metadata({CALL: json.dumps(call)})


def _call_of(batch: pa.RecordBatch) -> FunctionCall:
    row = json.loads(batch.schema.metadata[CALL])
    return FunctionCall._make(tuple(part) if isinstance(part, list) else part for part in row)


def send(connection: socket.socket, batch: pa.RecordBatch) -> None:
    """Raises OSError, TimeoutError if the connection has a time limit."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = sink.getvalue()
    connection.sendall(_SIZE.pack(data.size))
    connection.sendall(data)


def receive(connection: socket.socket, until: float | None = None) -> pa.RecordBatch:
    """The next message. `until`: a time of `time.monotonic`.

    Raises EOFError if the other end is closed, OSError, TimeoutError, pa.ArrowException.
    """
    (size,) = _SIZE.unpack(_read(connection, _SIZE.size, until))
    with pa.ipc.open_stream(_read(connection, size, until)) as stream:
        return stream.read_next_batch()


def _read(connection: socket.socket, size: int, until: float | None) -> bytes:
    found = bytearray()
    while len(found) < size:
        if until is not None:
            connection.settimeout(max(until - time.monotonic(), 0.001))
        part = connection.recv(min(size - len(found), 1 << 20))
        if not part:
            raise EOFError
        found += part
    return bytes(found)


class WrongResult(Exception):
    """What a function returned does not fit. The text quotes no record."""


class Functions(dict[FunctionCall, Callable[..., Any]]):
    """The functions of one process. Each is loaded at its first call, after its file is checked."""

    def __init__(self) -> None:
        super().__init__()
        self._modules: dict[Module, types.ModuleType] = {}

    def __missing__(self, call: FunctionCall) -> Callable[..., Any]:
        """Raises ModuleRefused."""
        module = Module(call.module, call.sha256)
        if module not in self._modules:
            self._modules[module] = _loaded(module, checked_module(module))
        found: Any = getattr(self._modules[module], call.function, None)
        if getattr(found, "evalType", None) != _SCALAR:
            raise ModuleRefused(
                f"{call.name} is no scalar arrow_udf: it must take and return pyarrow.Array."
            )
        self[call] = function = found.func
        return function  # type: ignore[no-any-return]


def answer(
    function: Callable[..., Any], call: FunctionCall, arguments: Sequence[Any]
) -> pa.RecordBatch:
    """The value of each record, or why the function failed for it."""
    values, errors, reasons = _called(function, call, list(arguments))
    return pa.record_batch([values, errors, reasons], names=ANSWER)


def _called(function: Callable[..., Any], call: FunctionCall, given: list[Any]) -> tuple[Any, ...]:
    """Values, errors and reasons. Halves what fails until the record is known."""
    count, kind = len(given[0]), TYPES[call.result]
    try:
        values = _checked(function(*given), count, kind)
        return values, pa.nulls(count, pa.string()), pa.nulls(count, pa.string())
    except WrongResult as error:
        texts = [f"{call.name} {error}"] * 2
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever user code raises)
        reason = f"{call.name} raised {type(error).__name__[:_LONGEST_NAME]}"
        texts = [f"{reason}: {error}"[:_LONGEST_ERROR], reason]
    if count == 1:
        shown = [text.encode("utf-8", "replace").decode() for text in texts]
        return pa.nulls(1, kind), *(pa.array([text], pa.string()) for text in shown)
    half = count // 2
    parts = [
        _called(function, call, [one.slice(at, size) for one in given])
        for at, size in ((0, half), (half, count - half))
    ]
    return tuple(pa.concat_arrays(list(side)) for side in zip(*parts, strict=True))


def _checked(values: Any, count: int, kind: Any) -> Any:
    """Raises WrongResult."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.Array):
        raise WrongResult(f"returned {type(values).__name__}, not pyarrow.Array")
    if len(values) != count:
        plural = "" if count == 1 else "s"
        raise WrongResult(f"returned {len(values)} values for {count} record{plural}")
    if values.type == kind:
        return values
    try:
        return values.cast(kind)
    except pa.ArrowException:
        raise WrongResult(f"returned {values.type}, not {kind}") from None


def _loaded(module: Module, source: bytes) -> types.ModuleType:
    """The module as these bytes define it. Raises ModuleRefused."""
    found = types.ModuleType(f"understudy_functions.{module.name}")
    sys.modules[found.__name__] = found
    try:
        exec(compile(source, module.file, "exec"), found.__dict__)  # noqa: S102
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever user code raises)
        why = f"{type(error).__name__}: {error}"[:300]
        raise ModuleRefused(
            f"{module.file} cannot be loaded: {why}. Correct it or install what it imports, then "
            "let an admin save the rule again."
        ) from None
    return found


def serve(connection: socket.socket) -> None:
    """Answer until the parent closes its end."""
    functions = Functions()
    while True:
        try:
            batch = receive(connection)
        except (EOFError, OSError):
            return
        call = _call_of(batch)
        try:
            function = functions[call]
        except ModuleRefused as error:
            found = _NOTHING.replace_schema_metadata({REFUSED: error.message})
        else:
            found = answer(function, call, batch.columns) if batch.num_rows else _NOTHING
        send(connection, found)


def _end_with_parent(parent: int) -> None:
    """User code that never ends would otherwise outlive a parent that is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _limit_memory() -> None:
    """Beyond it an allocation fails. If the host is short of memory, this process ends first."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = MOST_BYTES if most == resource.RLIM_INFINITY else min(MOST_BYTES, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def main() -> None:
    """Arguments: the descriptor of a socket, and the id of the parent."""
    descriptor, parent = map(int, sys.argv[1:])
    _end_with_parent(parent)
    _limit_memory()
    os.set_inheritable(descriptor, False)
    with socket.socket(fileno=descriptor) as connection:
        serve(connection)


if __name__ == "__main__":
    main()

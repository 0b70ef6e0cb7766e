"""Columns of a job with rules in Arrow: their types, and values from records and to results.

Imported only in such jobs, since pyarrow takes memory and time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mirrors.domain.transforms.rules import TransformRule
from spark_runner.engine.transforms.evaluation import Row
from spark_runner.sql import columns
from spark_runner.sql.columns import SECRET, reads_schemas, secret_references, used_columns
from spark_runner.sql.function_process import result_type
from spark_runner.sql.user_functions import FunctionCall

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
_SIZE = struct.Struct(">Q")
# One column of a request, from its records.
VALUES: Final[dict[str, Callable[[Row], Any]]] = {
    "offset": lambda row: row[0].offset,
    "timestamp": lambda row: row[0].timestamp * 1000 if row[0].timestamp >= 0 else None,
    "timestamp_type": lambda row: row[2],
    "key": lambda row: row[1].key,
    "value": lambda row: row[1].value,
}


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


def as_array(values: Any, kind: Any) -> Any:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def headers_of(rows: Sequence[Row]) -> Any:
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


def whole_column(table: pa.Table, name: str) -> Any:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def nulls_of(column: Any) -> list[int]:
    """The numbers of the rows without a value."""
    if not column.null_count:
        return []
    found: list[int] = pc.indices_nonzero(column.is_null()).to_pylist()
    return found


def send_frame(connection: Any, data: pa.Buffer) -> None:
    connection.sendall(_SIZE.pack(data.size))
    connection.sendall(data)


def read_frame(stream: Any) -> bytes:
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError
    (size,) = _SIZE.unpack(head)
    data: bytes = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data

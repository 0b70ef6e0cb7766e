"""Settings of every new database connection.

- `jit = off`: PostgreSQL compiles statements that it estimates to be expensive. Ours look up many
  rows by an index, take milliseconds, and would take tens of milliseconds to compile, each time. It
  is a statement, because a connection pooler rejects unknown start-up parameters.
- Times are parsed by `datetime.fromisoformat`. Django's loader matches a pattern and takes several
  times as long; a page over thousands of flows reads tens of thousands of times.
- Parameters contain no NUL. PostgreSQL rejects it in text and JSON, so such a row could never be
  saved. Group ids, client ids and error texts of clients may contain it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from mirrors.domain.formatting import INSTEAD, without_nul

try:
    from django.db.backends.postgresql.psycopg_any import BaseTzLoader
    from psycopg.types.json import Json, Jsonb
except ImportError:  # SQLite alone
    BaseTzLoader = object
    Json = Jsonb = None  # type: ignore[assignment,misc]

# A JSON escape: NUL, or any other, so that `\\u0000` is read as a backslash and text.
_ESCAPE = re.compile(r"\\(u0000|.)", re.DOTALL)


def install() -> None:
    connection_created.connect(_prepare, dispatch_uid="prepare connection")


def _prepare(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    # A reopened connection keeps its wrappers.
    if _clean not in connection.execute_wrappers:
        connection.execute_wrappers.append(_clean)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET jit = off")
        _read_times_fast(connection)


def _read_times_fast(connection: BaseDatabaseWrapper) -> None:
    if connection.timezone is UTC:
        connection.connection.adapters.register_loader("timestamptz", UtcLoader)


class UtcLoader(BaseTzLoader):
    """Times of a connection in UTC, whose text is of ISO 8601."""

    timezone = UTC

    def load(self, data: Any) -> datetime:
        try:
            return datetime.fromisoformat(bytes(data).decode())
        except ValueError:
            # Infinity, or a year that Python does not have: Django's error says so.
            return super().load(data)


def _clean(
    execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Mapping[str, Any]
) -> Any:
    if params:
        params = [_cleaned(row) for row in params] if many else _cleaned(params)
    return execute(sql, params, many, context)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return without_nul(value) if "\0" in value else value
    if isinstance(value, list | tuple):
        return type(value)(map(_cleaned, value)) if type(value) in (list, tuple) else value
    if isinstance(value, dict):
        return {key: _cleaned(one) for key, one in value.items()}
    if Json is not None and isinstance(value, Json | Jsonb):
        return type(value)(value.obj, dumps=functools.partial(_dumped, value.dumps or json.dumps))
    return value


def _dumped(dumps: Callable[[Any], str | bytes], value: Any) -> str | bytes:
    text = dumps(value)
    if isinstance(text, str) and "\\u0000" in text:
        return _ESCAPE.sub(lambda found: INSTEAD if found[1] == "u0000" else found[0], text)
    return text

"""Queries of every page that are built once: to build one takes longer than to execute it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet

# Stand for values that differ with each execution; no row has one of them.
NUMBER = -2_147_483_640
MOMENT = datetime(1, 1, 2, tzinfo=UTC)


class Statement:
    """The SQL of a query of values. `NUMBER` and `MOMENT` in it are replaced when it is executed.

    A query without any row has no SQL, and is not executed.
    """

    def __init__(self, rows: QuerySet[Any]) -> None:
        try:
            self._sql, self._params = rows.query.get_compiler(connection=connection).as_sql()
        except EmptyResultSet:
            self._sql, self._params = "", ()

    def rows(self, values: Mapping[int | datetime, int | datetime]) -> list[tuple[Any, ...]]:
        if not self._sql:
            return []
        given = {_adapted(mark): _adapted(value) for mark, value in values.items()}
        with connection.cursor() as cursor:
            cursor.execute(self._sql, [given.get(param, param) for param in self._params])
            found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def _adapted(value: int | datetime) -> Any:
    """As the database takes it."""
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value

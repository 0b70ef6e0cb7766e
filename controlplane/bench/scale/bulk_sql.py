"""Statements that make many rows of few, as both databases understand them."""

from __future__ import annotations

from django.db import connection
from django.db.models import Model


def multiply(insert: str, count: int) -> None:
    """`numbers` counts from 0 to below `count`."""
    head, _, select = insert.partition(" SELECT ")
    counting = f"SELECT 0 UNION ALL SELECT x + 1 FROM numbers WHERE x + 1 < {count}"
    with connection.cursor() as cursor:
        cursor.execute(f"{head} WITH RECURSIVE numbers(x) AS ({counting}) SELECT {select}")


def earlier(moment: str, seconds: str) -> str:
    """`n.x` times this many seconds before: SQLite keeps moments as text, PostgreSQL as moments."""
    if connection.vendor == "sqlite":
        return f"strftime('%Y-%m-%d %H:%M:%S', {moment}, '-' || (n.x * {seconds}) || ' seconds')"
    return f"{moment} - n.x * INTERVAL '1 second' * {seconds}"


def table(model: type[Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)

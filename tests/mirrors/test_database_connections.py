"""The first statements of a new database connection."""

from __future__ import annotations

from django.db import connection
from django.db.backends.signals import connection_created
from django.test.utils import CaptureQueriesContext


def test_postgresql_is_told_to_compile_no_statement_and_sqlite_nothing(db: None) -> None:
    with CaptureQueriesContext(connection) as told:
        connection_created.send(sender=type(connection), connection=connection)
    expected = ["SET jit = off"] if connection.vendor == "postgresql" else []
    assert [one["sql"] for one in told] == expected

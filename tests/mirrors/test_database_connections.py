"""The first statements of a new database connection."""

from __future__ import annotations

import threading
from datetime import UTC
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.db.backends.postgresql.psycopg_any import BaseTzLoader
from django.db.backends.signals import connection_created
from django.test.utils import CaptureQueriesContext
from psycopg import DataError, adapters

from controlplane.database.connections import UtcLoader
from monitoring import topology


def test_postgresql_is_told_to_compile_no_statement_and_sqlite_nothing(db: None) -> None:
    with CaptureQueriesContext(connection) as told:
        connection_created.send(sender=type(connection), connection=connection)
    expected = ["SET jit = off"] if connection.vendor == "postgresql" else []
    assert [one["sql"] for one in told] == expected


def test_groups_that_take_too_long_to_count_are_unknown_and_the_limit_ends_with_them(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no limit of a statement; tests/mirrors/test_postgres.py runs this.")

    def ask(statement: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()[0]

    begun = threading.Event()
    cache.clear()
    monkeypatch.setattr(topology, "_count_groups", lambda: ask("SELECT pg_sleep(10)"))
    monkeypatch.setattr(topology, "_count_for_later", begun.set)
    before = ask("SHOW statement_timeout")
    assert topology.group_counts() == {}
    assert begun.wait(10)
    assert ask("SHOW statement_timeout") == before
    monkeypatch.setattr(topology, "_count_groups", lambda: {1: 2})
    assert topology.group_counts() == {1: 2}
    assert ask("SHOW statement_timeout") == before
    cache.clear()


MOMENTS = (
    "2026-01-02 03:04:05+00",
    "2026-01-02 03:04:05.6+00",
    "2026-01-02 03:04:05.678901+00",
    "0001-01-01 00:00:00+00",
    "9999-12-31 23:59:59.999999+00",
)


@pytest.mark.parametrize("text", MOMENTS)
def test_a_time_of_postgresql_is_read_as_django_reads_it(text: str) -> None:
    oid, told = adapters.types["timestamptz"].oid, text.encode()
    found = UtcLoader(oid).load(told)
    assert (found, found.tzinfo) == (_by_django(oid).load(told), UTC)


@pytest.mark.parametrize("text", ["infinity", "-infinity", "0044-03-15 00:00:00+00 BC"])
def test_a_time_that_python_does_not_have_is_refused_as_by_django(text: str) -> None:
    oid = adapters.types["timestamptz"].oid
    with pytest.raises(DataError) as theirs:
        _by_django(oid).load(text.encode())
    with pytest.raises(DataError) as ours:
        UtcLoader(oid).load(text.encode())
    assert str(ours.value) == str(theirs.value)


def _by_django(oid: int) -> BaseTzLoader:
    loader = BaseTzLoader(oid)
    loader.timezone = UTC
    return loader

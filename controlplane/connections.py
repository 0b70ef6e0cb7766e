"""What PostgreSQL is told on every new connection: not to compile statements.

It compiles whatever it thinks dear before it runs it. Ours look many rows up by an index, which it
takes for dear, and run for some milliseconds; to compile them takes tens, each time anew.

Said by a statement: a pooler between us and the server refuses start-up parameters that it does
not know.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


def install() -> None:
    connection_created.connect(_compile_nothing, dispatch_uid="compile nothing")


def _compile_nothing(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET jit = off")

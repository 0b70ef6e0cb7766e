"""Updates many rows with a statement each, sent together.

Django's `bulk_update` builds one statement with a condition for each row and column: for 2,000 rows
that takes a second of processor time.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection
from django.db.models import Field, Model


def update_rows(rows: Sequence[Model], fields: Sequence[str]) -> None:
    """Write these fields of rows of one model. A row that was deleted meanwhile stays deleted."""
    if not rows:
        return
    meta = type(rows[0])._meta
    columns = [field for field in meta.concrete_fields if field.name in fields]
    changes = ", ".join(f"{_quoted(column)} = %s" for column in columns)
    table, key = connection.ops.quote_name(meta.db_table), _quoted(meta.pk)
    statement = f"UPDATE {table} SET {changes} WHERE {key} = %s"  # noqa: S608 - names of the model
    values = [
        [*(column.get_db_prep_save(getattr(row, column.attname), connection) for column in columns),
         row.pk]
        for row in rows
    ]  # fmt: skip
    with connection.cursor() as cursor:
        cursor.executemany(statement, values)


def _quoted(field: Field) -> str:
    return connection.ops.quote_name(str(field.column))

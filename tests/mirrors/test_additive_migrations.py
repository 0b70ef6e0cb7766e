"""Migrations only add, so that processes of the version before work on the migrated database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import migrations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.models import NOT_PROVIDED

# The newest migration of each application before the rule.
BEFORE = {"mirrors": "0081", "monitoring": "0018"}
ADDS = (
    migrations.CreateModel,
    migrations.AddIndex,
    migrations.RemoveIndex,
    migrations.RenameIndex,
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
    # It changes rows; whether the version before reads them is for its author to say.
    migrations.RunPython,
)


def refusal(operation: Operation) -> str:
    """Why a process of the version before could fail after the operation; empty if it cannot."""
    if isinstance(operation, migrations.AddField):
        field = operation.field
        if field.null or field.many_to_many or field.db_default is not NOT_PROVIDED:
            return ""
        return f"{operation.name}: without null or db_default, older processes cannot insert rows"
    if isinstance(operation, migrations.AlterField):
        # Wider texts and other choices change nothing for older processes.
        return "" if operation.field.null or operation.field.max_length else operation.describe()
    if isinstance(operation, migrations.RemoveConstraint):
        return ""
    return "" if isinstance(operation, ADDS) else operation.describe()


def operations() -> Iterator[tuple[str, Operation]]:
    for (app, name), found in sorted(MigrationLoader(None).disk_migrations.items()):
        if app in BEFORE and name[:4] > BEFORE[app]:
            yield from ((f"{app}.{name}", operation) for operation in found.operations)


def test_every_migration_leaves_the_version_before_working() -> None:
    found = [(name, said) for name, one in operations() if (said := refusal(one))]
    assert found == [], "split the change: see docs/operations/install/backup-and-upgrade.md"


@pytest.mark.parametrize("operation", [
    migrations.RemoveField("flow", "speed"),
    migrations.RenameField("flow", "speed", "pace"),
    migrations.DeleteModel("Host"),
    migrations.RenameModel("Host", "Machine"),
])  # fmt: skip
def test_what_takes_away_is_told(operation: Operation) -> None:
    assert refusal(operation)

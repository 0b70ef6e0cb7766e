"""What is said of a flow's schemas: unknown before anything else."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from mirrors.domain.schemas.status import SchemaStatus, schema_problem

MINUTE = timedelta(minutes=1)
FINE = SchemaStatus(age=MINUTE, every=MINUTE)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, ""),
        ({"age": None}, "is unknown: the registries were never compared."),
        ({"age": 6 * MINUTE}, "is unknown: the last comparison was 6 min ago."),
        ({"error": "It does not respond.", "pending": 3}, "is unknown. It does not respond."),
        ({"unread": 2, "conflicts": 1}, "is unknown: 2 subjects could not be read."),
        ({"conflicts": 1, "conflict": "Why."}, "1 subject cannot be synchronized. Why."),
        ({"pending": 2}, "The schema registry of west lacks 2 changes."),
        ({"other_ids": 1}, "1 schema has another id in the registry of west"),
        ({"other_ids": 2, "maps_ids": True}, ""),
    ],
)
def test_a_problem_is_named_and_nothing_else(facts: dict[str, Any], words: str) -> None:
    found = schema_problem(dataclasses.replace(FINE, **facts), "west")
    assert found.endswith(words) or words in found
    assert bool(found) == bool(words)

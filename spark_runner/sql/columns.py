"""The columns that the Python workers and Spark exchange."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mirrors.domain.transforms.functions import COLUMNS, schema_functions
from mirrors.domain.transforms.rules import TransformRule

if TYPE_CHECKING:
    # It imports pyarrow, which runners without rules do not need.
    from spark_runner.sql.user_functions import FunctionCall

# Rows of one Arrow batch. Spark passes a batch on when it is full, so requests are filled up.
BATCH_ROWS: Final = 500
# A worker passes its output on when this many bytes follow: Python buffers 64 KB.
FLUSH_BYTES: Final = 70_000

# - RECORD: evaluate it. FILLER: fills a batch. ADDRESS: `text` is the socket for the results.
# - RESULT: `text` is the SliceResult as JSON, the last row.
# - FIGURES: `text` is what `TaskFigures.java` adds to the task's metrics.
# - ARGUMENTS: evaluate the arguments of its user code only. A RECORD with the results follows.
RECORD, FILLER, ADDRESS, RESULT, FIGURES, ARGUMENTS = range(6)

# Columns of every row, besides those of the record.
KIND, RULE, TEXT, FLUSH = "_kind", "_rule", "_text", "_flush"
FIXED: Final = {KIND: "int", RULE: "int", TEXT: "string", FLUSH: "binary"}
# Results: a struct with the expression's value, or null if it failed. `_keep` also for a record
# that is dropped; the others only for records that are kept.
KEEP: Final = "_keep"
CHANGES: Final = {
    "topic": "_new_topic",
    "key": "_new_key",
    "value": "_new_value",
    "headers": "_new_headers",
}

# Followed by the reference of a secret: values, which no plan of Spark contains.
SECRET: Final = "_secret_"  # noqa: S105 - a name

# The folder with the schemas of a registry: a file `ID.json` each.
SCHEMAS: Final = "_schemas"

_WORD = re.compile(r"\w+")
_REFERENCE = re.compile(r"['\"]((?:env|file|properties):[^'\"`\s]+)['\"]")


def used_columns(rules: Sequence[TransformRule]) -> tuple[str, ...]:
    """The columns that the expressions name, or may name, in the order of COLUMNS."""
    identifiers = {
        word.lower()
        for rule in rules
        for text in rule.expressions.values()
        for word in _WORD.findall(text)
    }
    return tuple(name for name in COLUMNS if name in identifiers)


def changed_fields(rules: Sequence[TransformRule]) -> tuple[str, ...]:
    """The fields that at least one rule replaces."""
    return tuple(field for field in CHANGES if any(field in rule.expressions for rule in rules))


def secret_references(rules: Sequence[TransformRule]) -> tuple[str, ...]:
    """The references in expressions that call a function with a secret."""
    return tuple(
        dict.fromkeys(
            reference
            for rule in rules
            for text in rule.expressions.values()
            if "hmac" in text.lower()
            for reference in _REFERENCE.findall(text)
        )
    )


def reads_schemas(rules: Sequence[TransformRule]) -> bool:
    """Whether an expression calls, or may call, a function on records with a schema."""
    return any(schema_functions(text) for rule in rules for text in rule.expressions.values())


def maps_ids(rules: Sequence[TransformRule]) -> bool:
    """Whether ids of the target's registry are needed as well."""
    texts = (text for rule in rules for text in rule.expressions.values())
    return any(helper.maps_ids for text in texts for helper in schema_functions(text))


def input_schema(rules: Sequence[TransformRule], calls: Sequence[FunctionCall] = ()) -> str:
    """Spark's schema of what the first worker sends. `calls`: those of user code."""
    fields = {**FIXED, **{name: COLUMNS[name] for name in used_columns(rules)}}
    fields |= dict.fromkeys(
        (SECRET + reference for reference in secret_references(rules)), "binary"
    )
    if reads_schemas(rules):
        fields[SCHEMAS] = "string"
    fields |= {call.column: f"struct<v: {call.result}, error: string>" for call in calls}
    return ", ".join(f"`{name}` {kind}" for name, kind in fields.items())

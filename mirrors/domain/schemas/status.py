"""What is known of a flow's schemas, as one sentence for readiness, simulations and alerts."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from mirrors.domain.formatting import duration, plural

# Comparisons that were missed before the last one counts as old.
_MISSED = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaStatus:
    """The last comparison of a flow that synchronizes schemas.

    - `age`: of the comparison; None before the first. `error`: why there was none since.
    - `other_ids`: schemas with another id on the target. `maps_ids`: whether a rule maps them.
    """

    age: timedelta | None
    every: timedelta
    error: str = ""
    pending: int = 0
    conflicts: int = 0
    conflict: str = ""
    unread: int = 0
    other_ids: int = 0
    maps_ids: bool = False


def schema_problem(status: SchemaStatus, target: str) -> str:
    """Return why consumers on the target may lack a schema; empty if nothing is known to lack.

    What is unknown comes first: the figures of an old comparison say nothing about now.
    """
    if why := _why_unknown(status):
        return f"Whether the schema registry of {target} has all schemas is unknown{why}"
    if status.conflicts:
        return f"{plural(status.conflicts, 'subject')} cannot be synchronized. {status.conflict}"
    if status.pending:
        return f"The schema registry of {target} lacks {plural(status.pending, 'change')}."
    if status.other_ids and not status.maps_ids:
        return (
            f"{plural(status.other_ids, 'schema')} {'has' if status.other_ids == 1 else 'have'} "
            f"another id in the registry of {target}, and no rule of the flow maps it: consumers "
            "there find another schema or none. Add a rule with target_schema(value)."
        )
    return ""


def _why_unknown(status: SchemaStatus) -> str:
    """The end of the sentence; empty if the last comparison counts."""
    if status.error:
        return f". {status.error}"
    if status.age is None:
        return ": the registries were never compared."
    if status.age > status.every * _MISSED:
        return f": the last comparison was {duration(status.age.total_seconds() * 1000)} ago."
    if status.unread:
        return f": {plural(status.unread, 'subject')} could not be read."
    return ""

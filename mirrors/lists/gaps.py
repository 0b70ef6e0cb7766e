"""The list of gaps: data loss and rejected records of a flow, by partition."""

from __future__ import annotations

from mirrors.domain.states.findings import GAP
from mirrors.lists.columns import Column, ListSpec, in_rest
from mirrors.models.gaps import GapKind

GAPS = ListSpec(
    "gaps",
    columns=(
        *in_rest("id"),
        Column("topic", "Topic", ("topic", "partition")),
        Column("partition", "Partition", ("partition", "topic"), number=True),
        Column("state", "State", ("state",)),
        Column("kind", "Kind", ("kind",)),
        Column("count", "Offsets lost", ("count",), number=True),
        Column("first_lost", "First", ("first_lost",), number=True),
        Column("last_lost", "Last", ("last_lost",), number=True),
        Column("opened_at", "Found", ("opened_at",)),
        Column("closed_at", "Closed", ("closed_at",)),
        Column("decided_by", "Decided by", ("decided_by",)),
        Column("reason", "Reason"),
        *in_rest("position", "first_available", "source_end", "remote_first", "remote_last"),
        *in_rest("was", "now", "closed_why", "decided_at", "decided_why", "digest"),
    ),
    search=("topic", "reason", "decided_by"),
    default="-opened_at",
    filters={"state": GAP.names, "kind": tuple(GapKind.values)},
)

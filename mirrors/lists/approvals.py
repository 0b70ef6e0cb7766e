"""Lists of what waits for a second person."""

from __future__ import annotations

from mirrors.lists.columns import Column, ListSpec, in_rest, on_page

WAIVERS = ListSpec(
    "rule waivers",
    rows="waivers",
    columns=(
        *in_rest("id"),
        Column("flow.name", "Flow", field=None),
        Column("requested_by", "Requested by"),
        Column("created_at", "When"),
        Column("why", "Reason"),
        *in_rest("decided_by", "decided_at", "approved"),
        on_page("Decision", hidden=True),
    ),
)
WAITING_RUNS = ListSpec(
    "runs to approve",
    rows="runs",
    columns=(
        Column("kind", "Run", field=None),
        Column("flow.name", "Flow", field=None),
        Column("requested_by", "Requested by", field=None),
        Column("created_at", "When", field=None),
        Column("why", "Reason", field=None),
        on_page("Decision", hidden=True),
    ),
)

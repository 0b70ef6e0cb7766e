"""Lists of drills: runs, schedules, the terms of readiness."""

from __future__ import annotations

import dataclasses

from mirrors.domain.states.runs import DRILL
from mirrors.lists.columns import Column, ListSpec, in_files, in_rest, on_page
from mirrors.models.failover import Verification

DRILL_RUNS = ListSpec(
    "drill runs",
    columns=(
        Column("pk", "Drill", ("pk",), number=True, field="id"),
        Column("flow_name", "Flow", ("flow_name",)),
        Column("state", "Result", ("state",)),
        Column("verification", "Verified", ("verification",)),
        Column("created_at", "When", ("created_at",)),
        Column(
            "measured.rpo_ms",
            "RPO",
            number=True,
            title="Age of the oldest record not replicated",
            field=None,
        ),
        Column(
            "measured.loss",
            "Lost",
            number=True,
            title="Records that would be lost",
            field=None,
        ),
        Column(
            "measured.rto_ms",
            "RTO",
            number=True,
            title="Time until every group consumes again",
            field=None,
        ),
        Column("certificate.number", "Certificate", field="certificate"),
        Column("reason", "Reason"),
        *in_rest("flow", "drill", "schedule", "verification_reason", "requested_by", "failover"),
        *in_rest("objectives", "measured", "verdict", "uncertified", "started_at", "ended_at"),
    ),
    search=("flow_name", "reason", "requested_by"),
    default="-pk",
    filters={"state": DRILL.names, "verification": tuple(Verification.values)},
)
_OF_ANY_FLOW = ("flow_name", "verification", "certificate.number")
DRILL_RUNS_OF_FLOW = dataclasses.replace(
    DRILL_RUNS,
    name="drill runs of a flow",
    columns=tuple(column for column in DRILL_RUNS.columns if column.key not in _OF_ANY_FLOW),
)
DRILL_SCHEDULES = ListSpec(
    "drill schedules",
    columns=(
        Column("pk", "Schedule", ("pk",), number=True, field="id"),
        Column("label", "Flow", ("flow__source__alias", "flow__target__alias"), field="flow_name"),
        Column("schedule", "When", ("schedule",)),
        Column("time_zone", "Time zone", ("time_zone",)),
        Column("next_at", "Next"),
        Column("groups", "Groups"),
        Column("changed_by", "By", ("changed_by",)),
        *in_rest("flow", "enabled", "created_at"),
    ),
    search=("label", "schedule", "time_zone", "changed_by"),
    default="label",
)
READINESS = ListSpec(
    "readiness",
    rows="lines",
    columns=(
        Column("term.title", "Part", field="title"),
        Column("term.points", "Points", number=True, field="points"),
        Column("term.most", field="most"),
        on_page("State"),
        Column("term.sentence", "What is lost, and why", field="sentence"),
        Column("label", "To fix it", field=None),
        *in_files("link"),
        *in_rest("name", "lost", "fix"),
    ),
)

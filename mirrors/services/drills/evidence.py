"""The evidence export: every certificate of a time, in the fields of DORA articles 11 and 12."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from mirrors.domain.drills.certificates.signature import DRILL, verify
from mirrors.domain.drills.evidence import FORMAT, Later, evidence_entry
from mirrors.models import Certificate, FlowObjectives
from mirrors.services.drills.certificates.facts import time_text
from mirrors.services.drills.certificates.signing_key import known_keys

# A drill each hour of a year.
MOST = 10_000
BASIS = (
    "Regulation (EU) 2022/2554 (DORA), articles 11 (response and recovery, testing of plans) and "
    "12 (backup, restoration and recovery)"
)


def export_evidence(
    *, since: datetime | None, until: datetime | None, flow_name: str = "", now: datetime
) -> dict[str, Any]:
    """All certificates issued in [since, until), oldest first; each verified before it is used."""
    rows = Certificate.objects.order_by("issued_at", "pk")
    if flow_name:
        rows = rows.filter(flow_name=flow_name)
    later = list(rows.values_list("flow_name", "number", "passed", "issued_at"))
    if since is not None:
        rows = rows.filter(issued_at__gte=since)
    if until is not None:
        rows = rows.filter(issued_at__lt=until)
    keys, objectives = known_keys(), _objectives()
    entries, refused = [], []
    for row in rows[:MOST]:
        found = verify(row.text.encode("ascii", "replace"), keys)
        if not found.genuine or found.document is None:
            refused.append({"number": row.number, "reason": found.sentence})
            continue
        after = [
            Later(number=number, passed=passed, issued_at=time_text(at) or "")
            for name, number, passed, at in later
            if name == row.flow_name and at > row.issued_at
        ]
        entries.append(
            evidence_entry(
                found.document,
                row.text,
                objectives=objectives.get(row.flow_name, {}),
                # A run that succeeded does not show that a drill's gap is closed, nor the reverse.
                later=after if found.document["kind"] == DRILL else (),
            )
        )
    return {
        "format": FORMAT,
        "basis": BASIS,
        "exported_at": time_text(now),
        "since": time_text(since),
        "until": time_text(until),
        "entries": entries,
        "refused": refused,
        "is_complete": rows.count() <= MOST,
    }


def as_text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _objectives() -> dict[str, dict[str, Any]]:
    rows = FlowObjectives.objects.select_related("flow__source", "flow__target")
    names = ("rpo_seconds", "rpo_records", "rto_seconds")
    return {row.flow.name: {name: getattr(row, name) for name in names} for row in rows}

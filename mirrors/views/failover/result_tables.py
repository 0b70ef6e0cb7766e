"""The rows of a simulation as its page and its downloads show them, worst first."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse

from mirrors.domain.account.sentences import amount
from mirrors.domain.failover.runbook.data_loss import every_partition
from mirrors.lists.failover import (
    CLIENTS,
    PARTITIONS_AT_RISK,
    PRECONDITIONS,
    RESET_GROUPS,
    SIMULATED_GROUPS,
    STEPS,
)
from mirrors.models import FailoverRun
from mirrors.views.tables import download

# A verdict, and the state whose icon and color it has.
STATES = {
    "proven": "succeeded",
    "differs": "critical",
    "unproven": "unknown",
    "unread": "attention",
}
_WORST = ("differs", "unread", "unproven", "proven")


def stated(figures: dict[str, Any] | None, name: str) -> str:
    """`loss` or `re_reads` of a plan or a result: `at least 20 records, unknown for 3 more`.

    Empty in those of earlier versions.
    """
    if not figures or f"{name}_known" not in figures:
        return ""
    certainty = figures[f"{name}_certainty"]
    words = amount(figures[f"{name}_known"], certainty)
    unknown = figures.get(f"{name}_unknown", 0)
    is_partial = unknown and certainty != "unknown"
    return f"{words}, unknown for {unknown:,} more" if is_partial else words


def failed_first(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Wrong and unknown group-partitions first, then those with most loss or records behind."""
    marked = [{**row, "state": STATES.get(row["verdict"], "unknown")} for row in rows]
    return sorted(
        marked,
        key=lambda row: (
            _WORST.index(row["verdict"]),
            -(row["unread_loss"] or 0),
            -(row["waiting"] or 0),
            row["group"],
            row["topic"],
            row["partition"],
        ),
    )


def partitions_at_risk(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Partitions with data loss or unknown data loss; the largest loss first."""
    rows = [dict(row) for row in every_partition(plan) if row["loss"] != 0]
    return sorted(rows, key=lambda row: (row["loss"] is not None, -(row["loss"] or 0)))


def download_rows(request: HttpRequest, run: FailoverRun) -> StreamingHttpResponse | None:
    kind = request.GET.get("as")
    if kind not in {"csv", "json"} or request.GET.get("of"):
        return None
    rows = (run.result or {}).get("partitions", [])
    each = (types.SimpleNamespace(**row) for row in failed_first(rows))
    return download(kind, SIMULATED_GROUPS, each, f"simulation-{run.pk}")


SIMULATION = {
    "steps": STEPS,
    "findings": PRECONDITIONS,
    "lossy": PARTITIONS_AT_RISK,
    "clients": CLIENTS,
}
EXECUTION = {"steps": STEPS, "places": RESET_GROUPS}


def findings_of(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Blockers of a real failover, then warnings."""
    return [
        {**row, "weight": weight}
        for weight, name in (("blocker", "blockers"), ("warning", "warnings"))
        for row in plan.get(name, [])
    ]

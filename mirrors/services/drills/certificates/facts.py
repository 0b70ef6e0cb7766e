"""Facts of a run as they appear in certificates."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mirrors.models import Cluster, FailoverRun


def evidence_facts(run: FailoverRun) -> dict[str, Any]:
    """The content whose digest is in a certificate."""
    return {
        "run": run.pk,
        "kind": run.kind,
        "state": run.state,
        "reason": run.reason,
        "plan": run.plan,
        "result": run.result,
        "steps": step_facts(run),
    }


def step_facts(run: FailoverRun | None) -> list[dict[str, Any]]:
    if run is None:
        return []
    return [
        {
            "number": step.number,
            "name": step.name,
            "does": step.does,
            "state": step.state,
            "reason": step.reason,
            "started_at": time_text(step.started_at),
            "ended_at": time_text(step.ended_at),
        }
        for step in run.steps.all()
    ]


def cluster_facts(cluster: Cluster) -> dict[str, str]:
    return {"alias": cluster.alias, "cluster_id": cluster.cluster_id}


def time_text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds")

"""Which way a job's batches went, on a page: how many as they were, how many written anew, why."""

from __future__ import annotations

from typing import Any

from mirrors.domain.lanes import LaneFigure, shares
from mirrors.models import Job
from mirrors.views.sheets import Sheet

LANES = Sheet("lane_shares", ("lane", "why", "batches", "percent", "records", "bytes"))


def lanes_of(job: Job | None) -> dict[str, Any]:
    return {"lane_shares": shares(LaneFigure(**row) for row in job.lanes) if job else []}

"""The page of one job: how it ended, its error, and the transitions of job and flow meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.lists.flows import JOB_TRANSITIONS, LANES
from mirrors.models import Job, Transition, needs
from mirrors.views.flows.tabs import lanes_of
from mirrors.views.page import curl, render_page
from mirrors.views.tables import export, file_of, table_of

# Causes are recorded shortly before a job begins, consequences shortly after it ends.
_AROUND = timedelta(seconds=5)


@require_safe
@needs(Right.VIEW)
def show_job(request: HttpRequest, pk: int, job: int) -> HttpResponseBase:
    jobs = Job.objects.select_related("flow__source", "flow__target", "runner")
    row = get_object_or_404(jobs, pk=job, flow=pk)
    rows = log_of(row)
    if download := export(request, JOB_TRANSITIONS, rows, f"job-{row.pk}"):
        return download
    shares = lanes_of(row)
    if file := file_of(request, shares, {"lanes": LANES}, f"job-{row.pk}"):
        return file
    context: dict[str, Any] = {
        "job": row,
        "flow": row.flow,
        "table": table_of(request, JOB_TRANSITIONS, rows),
        **shares,
        "commands": [curl(request, "Jobs of this flow", "GET", f"flows/{pk}/jobs/")],
    }
    every = 3 if row.ended_at is None else None
    return render_page(request, "mirrors/flows/job.html", context, section="flows", every=every)


def log_of(job: Job) -> QuerySet[Transition]:
    """Transitions of the job, and of its flow while the job ran."""
    until = (job.ended_at or timezone.now()) + _AROUND
    own = Q(subject="job", subject_id=job.pk)
    meanwhile = Q(
        subject="flow",
        subject_id=job.flow_id,
        when__gte=job.started_at - _AROUND,
        when__lte=until,
    )
    return Transition.objects.filter(own | meanwhile)

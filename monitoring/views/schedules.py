"""The page of schedules: flows that run by cron or until a moment, next runs and last runs."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.settings.flow_control import SCHEDULE, UNTIL, WINDOW, ZONE
from mirrors.domain.states.flows import OBSERVED
from mirrors.models import Job, needs
from mirrors.models.flow_queries import flows_with_lag
from mirrors.views.page import curl, filter_of, render_page
from mirrors.views.tables import export, file_of, first, table_of
from monitoring.lists import LAST_RUNS, NEXT_RUNS, SCHEDULES
from monitoring.schedules import next_runs, scheduled_flows, set_schedules

MOST_NEXT = 8
MOST_LAST = 20


@require_safe
@needs(Right.VIEW)
def show_schedules(request: HttpRequest) -> HttpResponseBase:
    now = timezone.now()
    flows = set_schedules(list(scheduled_flows()), now)
    facts = {flow.pk: flow for flow in flows}
    rows = flows_with_lag().filter(pk__in=facts)
    if download := export(request, SCHEDULES, rows, "schedules", lambda row: facts[row.pk]):
        return download
    table = table_of(request, SCHEDULES, rows)
    table.page.object_list = [facts[row.pk] for row in table.page]
    jobs = Job.objects.filter(flow__in=facts).select_related("flow__source", "flow__target")
    context: dict[str, Any] = {
        "table": table,
        "filters": [filter_of("observed_state", "State", OBSERVED.names, table.chosen)],
        "coming": next_runs(flows),
        "runs": jobs.order_by("-id"),
        "schedule_key": SCHEDULE,
        "until_key": UNTIL,
        "window_key": WINDOW,
        "zone_key": ZONE,
        "commands": [curl(request, "Read the schedules", "GET", "schedules/")],
    }
    if file := file_of(request, context, {"coming": NEXT_RUNS, "runs": LAST_RUNS}):
        return file
    first(context, MOST_NEXT, "coming")
    first(context, MOST_LAST, "runs")
    return render_page(request, "monitoring/schedules.html", context, section="schedules", every=5)

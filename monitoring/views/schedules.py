"""The page of schedules: flows that run by cron or until a moment, next runs and last runs."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.domain.settings.flow_control import SCHEDULE, UNTIL, WINDOW, ZONE
from mirrors.models import Job, Role, needs
from mirrors.models.flow_queries import flows_with_lag
from mirrors.models.flows import ObservedState
from mirrors.views.page import curl, filter_of, render_page
from mirrors.views.tables import Column, Question, Sheet, file_of, first
from monitoring.schedules import next_runs, scheduled_flows, set_schedules

COMING = 8
LAST_RUNS = 20
QUESTION = Question(
    columns=(
        Column("label", "Flow", ("source__alias", "target__alias")),
        Column("observed_state", "State", ("observed_state",)),
        Column("schedule", "Schedule", title="Minute, hour, day, month, weekday; UTC or its zone"),
        Column("until", "Until"),
        Column("next_at", "Next run"),
        Column(
            "offset_lag",
            "Would move",
            ("owed",),
            number=True,
            title="Records not yet copied, as last seen: what a run that began now would copy",
        ),
        Column("as_of", "As of", ("as_of",)),
        Column("last_started", "Last run"),
        Column("last_records", "Moved", number=True),
        Column("window", "Window", number=True, title="Minutes that the window stays open"),
        Column("ends_at", "Closes", title="When the window ends the current run"),
        Column("sentence", "Description"),
    ),
    search=("label", "reason"),
    default="label",
    filters={"observed_state": tuple(ObservedState.values)},
)
SHEETS = {
    "coming": Sheet("coming", ("next_at", "label", "offset_lag", "sentence")),
    "runs": Sheet(
        "runs", ("started_at", "ended_at", "flow.name", "state", "records", "bytes", "reason")
    ),
}


@require_safe
@needs(Role.VIEWER)
def show_schedules(request: HttpRequest) -> HttpResponseBase:
    now = timezone.now()
    flows = set_schedules(list(scheduled_flows()), now)
    facts = {flow.pk: flow for flow in flows}
    rows = flows_with_lag().filter(pk__in=facts)
    if download := QUESTION.export(request, rows, "schedules", lambda row: facts[row.pk]):
        return download
    table = QUESTION.table(request, rows)
    table.page.object_list = [facts[row.pk] for row in table.page]
    jobs = Job.objects.filter(flow__in=facts).select_related("flow__source", "flow__target")
    context: dict[str, Any] = {
        "table": table,
        "filters": [filter_of("observed_state", "State", ObservedState.values, table.chosen)],
        "coming": next_runs(flows),
        "runs": jobs.order_by("-id"),
        "schedule_key": SCHEDULE,
        "until_key": UNTIL,
        "window_key": WINDOW,
        "zone_key": ZONE,
        "commands": [curl(request, "Read the schedules", "GET", "schedules/")],
    }
    if file := file_of(request, context, SHEETS):
        return file
    first(context, COMING, "coming")
    first(context, LAST_RUNS, "runs")
    return render_page(request, "monitoring/schedules.html", context, section="schedules", every=5)

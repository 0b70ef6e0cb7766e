"""Schedules: flows that run by cron or until a moment, what comes next, what the last runs did."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.domain.flows.schedule import Runs, standing_of
from mirrors.domain.settings.flow_control import SCHEDULE, UNTIL, WINDOW, ZONE
from mirrors.models import Job, Role, Transition, needs
from mirrors.models.flow_queries import flows_with_lag
from mirrors.models.flows import ObservedState
from mirrors.services.clock import milliseconds, moment
from mirrors.services.flows.schedules import RUN_BEGAN
from mirrors.services.runners.processes import SUPERVISOR
from mirrors.views.page import curl, filter_of, mark_flow, render_page
from mirrors.views.tables import Column, Question, Sheet, file_of, first

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
        Column("window", "Window", number=True, title="So many minutes it stays open"),
        Column("ends_at", "Closes", title="When its window ends the run that goes on now"),
        Column("sentence", "In words"),
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


def scheduled() -> QuerySet[Any]:
    """Flows with a schedule or an end, with who asked for their state, their last run and job."""
    asked = Transition.objects.filter(
        subject="flow", subject_id=OuterRef("pk"), field="desired_state"
    ).order_by("-id")
    jobs = Job.objects.filter(flow=OuterRef("pk")).order_by("-id")
    bounded = Q(properties__has_key=SCHEDULE) | Q(properties__has_key=UNTIL)
    return (
        flows_with_lag()
        .filter(bounded)
        .annotate(
            asked_by=Subquery(asked.values("who")[:1]),
            asked_at=Subquery(asked.values("when")[:1]),
            ran_since=Subquery(asked.filter(RUN_BEGAN).values("when")[:1]),
            last_job=Subquery(jobs.values("pk")[:1]),
        )
    )


def mark_schedules(flows: list[Any], now: datetime) -> list[Any]:
    """What each does now, when it runs next, and what its last run did."""
    jobs = Job.objects.in_bulk([flow.last_job for flow in flows if flow.last_job])
    for flow in flows:
        mark_flow(flow, now)
        runs = Runs.of(flow.properties)
        flow.schedule, flow.until = runs.schedule, runs.until
        # Offsets by the dozen wrap where a person would.
        flow.until_shown = (runs.until or "").replace(",", ", ")
        flow.zone = flow.properties.get(ZONE)
        flow.window = None if runs.window is None else int(flow.properties[WINDOW])
        standing = standing_of(
            runs,
            desired=flow.desired_state,
            asked_at=None if flow.asked_at is None else milliseconds(flow.asked_at),
            by_itself=flow.asked_by == SUPERVISOR,
            ran_since=None if flow.ran_since is None else milliseconds(flow.ran_since),
            waiting=flow.offset_lag,
            now=milliseconds(now),
        )
        flow.word, flow.sentence = standing.word, standing.sentence
        flow.next_at = None if standing.next_at is None else moment(standing.next_at)
        flow.ends_at = None if standing.ends_at is None else moment(standing.ends_at)
        job = jobs.get(flow.last_job)
        flow.last_run = job
        flow.last_started = job.started_at if job else None
        flow.last_records = job.records if job else None
    return flows


def coming_up(flows: list[Any]) -> list[Any]:
    """The next runs, the soonest first; one that runs already comes again after this run."""
    waiting = [flow for flow in flows if flow.next_at is not None]
    return sorted(waiting, key=lambda flow: (flow.next_at, flow.label))


@require_safe
@needs(Role.VIEWER)
def show_schedules(request: HttpRequest) -> HttpResponseBase:
    now = timezone.now()
    flows = mark_schedules(list(scheduled()), now)
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
        "coming": coming_up(flows),
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

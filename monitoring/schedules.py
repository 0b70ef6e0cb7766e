"""Flows that run by cron or until a moment, for the page and the REST API."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery

from mirrors.domain.audit.actors import ActorKind
from mirrors.domain.flows.schedule import RunSchedule, state_of_runs
from mirrors.domain.settings.flow_control import SCHEDULE, UNTIL, WINDOW, ZONE
from mirrors.models import Job, Transition
from mirrors.models.flow_queries import figures_as_of, flows_with_lag
from mirrors.services.clock import milliseconds, moment
from mirrors.services.flows.schedules import RUN_BEGAN
from mirrors.views.page import mark_flow


def scheduled_flows() -> QuerySet[Any]:
    """Flows with a schedule or an end, with the request for their state, last run and last job."""
    asked = Transition.objects.filter(
        subject="flow", subject_id=OuterRef("pk"), field="desired_state"
    ).order_by("-id")
    jobs = Job.objects.filter(flow=OuterRef("pk")).order_by("-id")
    bounded = Q(properties__has_key=SCHEDULE) | Q(properties__has_key=UNTIL)
    return (
        flows_with_lag()
        .filter(bounded)
        .annotate(
            asked_by=Subquery(asked.values("kind")[:1]),
            asked_at=Subquery(asked.values("when")[:1]),
            ran_since=Subquery(asked.filter(RUN_BEGAN).values("when")[:1]),
            last_job=Subquery(jobs.values("pk")[:1]),
        )
    )


def set_schedules(flows: list[Any], now: datetime) -> list[Any]:
    """Set on each flow its schedule, its current state, its next and its last run."""
    jobs = Job.objects.in_bulk([flow.last_job for flow in flows if flow.last_job])
    for flow in flows:
        mark_flow(flow, now)
        # Of the figures beside it, not of the runner's report.
        flow.as_of = figures_as_of(flow)
        runs = RunSchedule.of(flow.properties)
        flow.schedule, flow.until = runs.schedule, runs.until
        # A long list of end offsets wraps at its commas.
        flow.until_shown = (runs.until or "").replace(",", ", ")
        flow.zone = flow.properties.get(ZONE)
        flow.window = None if runs.window is None else int(flow.properties[WINDOW])
        standing = state_of_runs(
            runs,
            desired=flow.desired_state,
            asked_at=None if flow.asked_at is None else milliseconds(flow.asked_at),
            by_itself=flow.asked_by == ActorKind.PROCESS,
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


def next_runs(flows: list[Any]) -> list[Any]:
    """Flows by their next run, soonest first; a running flow is listed with the run after it."""
    waiting = [flow for flow in flows if flow.next_at is not None]
    return sorted(waiting, key=lambda flow: (flow.next_at, flow.label))

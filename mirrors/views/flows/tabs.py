"""The tabs of a flow's page, each with its rows, columns and filters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from mirrors.domain.flows.lanes import LaneFigure, shares
from mirrors.domain.states.findings import GapState
from mirrors.lists.audit import RECENT_TRANSITIONS, SETTING_CHANGES
from mirrors.lists.columns import ListSpec
from mirrors.lists.drills import DRILL_RUNS_OF_FLOW, READINESS
from mirrors.lists.flows import (
    BEHIND,
    JOBS,
    LANES,
    LOG,
    PARTITIONS,
    SETTINGS,
    TOPICS,
    TRANSFORM_RULES,
)
from mirrors.lists.gaps import GAPS
from mirrors.lists.groups import GROUP_PARTITIONS
from mirrors.lists.sync import HEARTBEATS, SCHEMA_IDS, SUBJECTS, SYNC_TASKS
from mirrors.lists.topics import DRIFT, PLAN
from mirrors.models import (
    Drift,
    Flow,
    FlowPartition,
    FlowTopic,
    Gap,
    GroupOffset,
    HeartbeatState,
    Job,
    SchemaId,
    SchemaSubject,
)
from mirrors.models.audit.transitions import events_of
from mirrors.services.comparison.verified import verified_sentence, with_verified
from mirrors.services.sync import scheduler
from mirrors.views.audit import setting_changes
from mirrors.views.drills.readiness import readiness_part
from mirrors.views.heartbeats import directions
from mirrors.views.runner_logs import log_of_flow
from mirrors.views.schemas import schemas_part
from mirrors.views.topics.plans import plan_part


@dataclasses.dataclass(frozen=True)
class Tab:
    """One tab; without a list it has no paged table."""

    label: str
    template: str
    spec: ListSpec | None = None
    rows: Callable[[Flow], QuerySet[Any]] | None = None
    # The context of a tab without a paged table.
    context: Callable[[Flow], dict[str, Any]] | None = None
    # The context below the table.
    below: Callable[[HttpRequest, Flow], dict[str, Any]] | None = None


def _asks(flow: Flow, **place: OuterRef) -> Exists:
    """Whether an open gap, including a record that the target rejects, waits for a decision."""
    return Exists(Gap.objects.filter(flow=flow, state=GapState.OPEN, closed_at=None, **place))


def _topics(flow: Flow) -> QuerySet[Any]:
    asks = _asks(flow, topic=OuterRef("topic"))
    return FlowTopic.objects.filter(flow=flow).annotate(asks=asks)


def _partitions(flow: Flow) -> QuerySet[FlowPartition]:
    asks = _asks(flow, topic=OuterRef("topic"), partition=OuterRef("partition"))
    return with_verified(FlowPartition.objects.filter(flow=flow).annotate(asks=asks))


def _groups(flow: Flow) -> QuerySet[GroupOffset]:
    return GroupOffset.objects.filter(flow=flow)


def _gaps(flow: Flow) -> QuerySet[Gap]:
    return Gap.objects.filter(flow=flow)


def _drift(flow: Flow) -> QuerySet[Drift]:
    return Drift.objects.filter(flow=flow)


def _subjects(flow: Flow) -> QuerySet[SchemaSubject]:
    return SchemaSubject.objects.filter(flow=flow)


def _schema_ids(flow: Flow) -> QuerySet[SchemaId]:
    return SchemaId.objects.filter(flow=flow)


def _jobs(flow: Flow) -> QuerySet[Job]:
    return Job.objects.filter(flow=flow).select_related("runner")


def _overview(flow: Flow) -> dict[str, Any]:
    """The topics that owe most or are not replicated, and the newest events."""
    fine = {"account_state__in": ("in_step", "filtered"), "state__in": ("in_sync", "skipped")}
    topics = _topics(flow).exclude(asks=False, **fine)
    behind = list(topics.order_by(F("offset_lag").desc(nulls_first=True), "pk")[: _SHOWN + 1])
    return {
        "behind": behind[:_SHOWN],
        "more_behind": len(behind) > _SHOWN,
        "transitions": list(events_of(flow)[:_SHOWN]),
        "verified": verified_sentence(flow),
    }


def _duties(flow: Flow) -> dict[str, Any]:
    now = timezone.now()
    heartbeat = HeartbeatState.objects.filter(flow=flow).first()
    age = None
    if heartbeat is not None and heartbeat.seen_at is not None:
        age = max(0, round((now - heartbeat.seen_at).total_seconds() * 1000))
    return {
        "standings": scheduler.task_statuses(flow=flow, now=now),
        "heartbeat": heartbeat,
        "heartbeat_age_ms": age,
    }


_SHOWN = 10
PARTS = {
    "overview": Tab("Overview", "mirrors/flows/tabs/overview.html", context=_overview),
    "topics": Tab("Topics", "mirrors/flows/tabs/topics.html", TOPICS, _topics),
    "partitions": Tab("Partitions", "mirrors/flows/tabs/partitions.html", PARTITIONS, _partitions),
    "schemas": Tab(
        "Schemas", "mirrors/schemas/_subjects_tab.html", SUBJECTS, _subjects, below=schemas_part
    ),
    "schema-ids": Tab("Ids of schemas", "mirrors/schemas/_ids_tab.html", SCHEMA_IDS, _schema_ids),
    "groups": Tab("Consumer groups", "mirrors/groups/_flow_tab.html", GROUP_PARTITIONS, _groups),
    "gaps": Tab("Gaps", "mirrors/gaps/_flow_tab.html", GAPS, _gaps),
    "offsets": Tab("Offsets", "mirrors/offsets/_flow_tab.html"),
    "readiness": Tab("Readiness", "mirrors/drills/_readiness_tab.html", context=readiness_part),
    "heartbeats": Tab("Heartbeats", "mirrors/heartbeats/_flow_tab.html", context=directions),
    "duties": Tab("Sync tasks", "mirrors/sync/_flow_tab.html", context=_duties),
    "plan": Tab("Plan", "mirrors/topics/_plan_tab.html", context=plan_part),
    "drift": Tab("Drift", "mirrors/topics/_drift_tab.html", DRIFT, _drift),
    "jobs": Tab("Jobs and log", "mirrors/flows/tabs/jobs.html", JOBS, _jobs, below=log_of_flow),
    "configuration": Tab("Configuration", "mirrors/flows/tabs/configuration.html"),
    "history": Tab("History", "mirrors/audit/_flow_tab.html", SETTING_CHANGES, setting_changes),
}


# The tabs of a flow, each with its parts; the first part is the tab's own address.
SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Overview", ("overview",)),
    ("Topics & partitions", ("topics", "partitions", "schemas", "schema-ids")),
    ("Consumer groups", ("groups", "offsets")),
    ("Charts", ("charts",)),
    ("Health", ("readiness", "heartbeats", "duties", "gaps", "drift", "alerts")),
    ("Events", ("events", "jobs")),
    ("Configuration", ("configuration", "history", "plan")),
)
# Parts with a page of their own.
_PAGES = {"charts": "Charts", "alerts": "Alerts", "events": "Events"}


def _link(pk: int, part: str) -> str:
    if part == "overview":
        return reverse("flow", args=[pk])
    if part in _PAGES:
        return reverse(f"flow-{part}", args=[pk])
    return reverse("flow-part", args=[pk, part])


def menu(pk: int, part: str) -> dict[str, Any]:
    """The tabs of a flow's page, and the parts of the tab that is shown."""
    shown = next(names for _, names in SECTIONS if part in names)
    return {
        "tabs": [(label, _link(pk, names[0]), names is shown) for label, names in SECTIONS],
        "parts": [
            (_PAGES.get(name) or PARTS[name].label, _link(pk, name), name == part) for name in shown
        ],
    }


def places(pk: int) -> dict[str, str]:
    """The address of each place of a flow's pages, by its name in documents: `Health > Gaps`."""
    found = {label: _link(pk, names[0]) for label, names in SECTIONS}
    for label, names in SECTIONS:
        if len(names) > 1:
            titles = {name: _PAGES.get(name) or PARTS[name].label for name in names}
            found |= {f"{label} > {titles[name]}": _link(pk, name) for name in names}
    return found | {
        "Costs": reverse("flow-cost", args=[pk]),
        "Left behind in failovers": reverse("flow-left-behind", args=[pk]),
        "Conflicting keys": reverse("flow-conflicts", args=[pk]),
    }


def lanes_of(job: Job | None) -> dict[str, Any]:
    return {"lane_shares": shares(LaneFigure(**row) for row in job.lanes) if job else []}


# Lists of a tab that are shown whole.
WHOLE_LISTS: dict[str, dict[str, ListSpec]] = {
    "overview": {"behind": BEHIND, "transitions": RECENT_TRANSITIONS},
    "partitions": {"lanes": LANES},
    "heartbeats": {"heartbeats": HEARTBEATS},
    "duties": {"duties": SYNC_TASKS},
    "plan": {"plan": PLAN},
    "configuration": {
        "settings": SETTINGS,
        "changes": SETTING_CHANGES,
        "transforms": TRANSFORM_RULES,
    },
    "readiness": {"readiness": READINESS, "drills": DRILL_RUNS_OF_FLOW},
    "jobs": {"log": LOG},
}

"""The tabs of a flow's page, each with its rows, columns and filters."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from mirrors.domain.flows.lanes import LaneFigure, shares
from mirrors.domain.groups.checkpoints import SYNC_STATES
from mirrors.domain.runners.job_files import TopicState
from mirrors.domain.states.findings import GAP, GapState
from mirrors.models import (
    Drift,
    Flow,
    FlowPartition,
    FlowTopic,
    Gap,
    GroupOffset,
    HeartbeatState,
    Job,
    Transition,
)
from mirrors.models.flows import JobState
from mirrors.models.gaps import GapKind
from mirrors.models.transitions import human_transitions
from mirrors.services.sync import scheduler
from mirrors.views.audit import AUDIT, HISTORY, setting_changes
from mirrors.views.drills.readiness import readiness_part
from mirrors.views.heartbeats import directions
from mirrors.views.runner_logs import log_of_flow
from mirrors.views.tables import Column, Question, Sheet
from mirrors.views.topics.drift import TABLE as DRIFT
from mirrors.views.topics.plans import plan_part

STATES = typing.get_args(TopicState)


@dataclasses.dataclass(frozen=True)
class Part:
    """One tab; without a question it has no paged table."""

    label: str
    template: str
    question: Question | None = None
    rows: Callable[[Flow], QuerySet[Any]] | None = None
    # The context of a tab without a paged table.
    context: Callable[[Flow], dict[str, Any]] | None = None
    # The context below the table.
    below: Callable[[HttpRequest, Flow], dict[str, Any]] | None = None


def _asks(flow: Flow, **place: OuterRef) -> Exists:
    """Whether an open gap, including a record that the target rejects, waits for a decision."""
    return Exists(Gap.objects.filter(flow=flow, state=GapState.OPEN, closed_at=None, **place))


def _topics(flow: Flow) -> QuerySet[FlowTopic]:
    asks = _asks(flow, topic=OuterRef("topic"))
    return FlowTopic.objects.filter(flow=flow).annotate(asks=asks)


def _partitions(flow: Flow) -> QuerySet[FlowPartition]:
    asks = _asks(flow, topic=OuterRef("topic"), partition=OuterRef("partition"))
    return FlowPartition.objects.filter(flow=flow).annotate(asks=asks)


def _groups(flow: Flow) -> QuerySet[GroupOffset]:
    return GroupOffset.objects.filter(flow=flow)


def _gaps(flow: Flow) -> QuerySet[Gap]:
    return Gap.objects.filter(flow=flow)


def _drift(flow: Flow) -> QuerySet[Drift]:
    return Drift.objects.filter(flow=flow)


def _jobs(flow: Flow) -> QuerySet[Job]:
    return Job.objects.filter(flow=flow).select_related("runner")


def _transitions(flow: Flow) -> QuerySet[Transition]:
    return Transition.objects.filter(subject="flow", subject_id=flow.pk)


def _duties(flow: Flow) -> dict[str, Any]:
    now = timezone.now()
    heartbeat = HeartbeatState.objects.filter(flow=flow).first()
    age = None
    if heartbeat is not None and heartbeat.seen_at is not None:
        age = max(0, round((now - heartbeat.seen_at).total_seconds() * 1000))
    return {
        "standings": scheduler.standings(flow=flow, now=now),
        "heartbeat": heartbeat,
        "heartbeat_age_ms": age,
    }


TOPICS = Question(
    columns=(
        Column("topic", "Topic", ("topic",)),
        Column("state", "State", ("state",)),
        Column(
            "offset_lag",
            "Behind",
            ("owed",),
            number=True,
            title="Records not replicated, at most: markers and compacted records have offsets too",
        ),
        Column("time_lag_ms", "Oldest", ("time_lag_ms",), number=True),
        Column("partitions", "Partitions", ("partitions",), number=True),
        Column("remote_topic", "Remote topic", ("remote_topic",)),
        Column("reason", "Reason"),
    ),
    search=("topic", "remote_topic", "reason"),
    default="-offset_lag",
    filters={"state": STATES},
    tie=("topic",),
)
PARTITIONS = Question(
    columns=(
        Column("topic", "Topic", ("topic", "partition")),
        Column("partition", "Partition", ("partition", "topic"), number=True),
        Column("state", "State", ("state",)),
        Column("offset_lag", "Behind", ("offset_lag",), number=True),
        Column("time_lag_ms", "Oldest", ("time_lag_ms",), number=True),
        Column(
            "position",
            "Position",
            ("position",),
            number=True,
            title="The next source offset to replicate; committed on the target with the data",
        ),
        Column(
            "source_stable_end",
            "Stable end",
            ("source_stable_end",),
            number=True,
            title="Last stable offset of the source: the flow reads up to here",
        ),
        Column("source_end", "Source end", ("source_end",), number=True),
        Column("lane", "Lane", ("lane",), title="How batches are copied: raw, repack or record"),
        Column("why", "Why", ("why",), title="Why the last batch was rewritten"),
        Column("as_of", "As of", ("as_of",)),
        Column("reason", "Reason"),
    ),
    search=("topic", "remote_topic", "reason", "why"),
    default="-offset_lag",
    filters={"state": STATES},
    tie=("topic", "partition"),
)
GROUPS = Question(
    columns=(
        Column("group", "Group", ("group", "topic", "partition")),
        Column("topic", "Topic", ("topic", "group", "partition")),
        Column("partition", "Partition", ("partition", "topic", "group"), number=True),
        Column(
            "source_offset",
            "On source",
            ("source_offset",),
            number=True,
            title="The next offset that the group reads on the source",
        ),
        Column(
            "translated_offset",
            "Translated",
            ("translated_offset",),
            number=True,
            title="The same position on the target, by the exact offset map",
        ),
        Column(
            "target_offset",
            "On target",
            ("target_offset",),
            number=True,
            title="The resume offset of the group on the target now",
        ),
        Column("outcome", "Map", ("outcome",), title="How the offset on the target was found"),
        Column("sync_state", "State", ("sync_state",)),
        Column("as_of", "As of", ("as_of",)),
        Column("reason", "Reason"),
    ),
    search=("group", "topic", "reason"),
    default="group",
    filters={"sync_state": SYNC_STATES},
    tie=("group", "topic", "partition"),
)
GAPS = Question(
    columns=(
        Column("topic", "Topic", ("topic", "partition")),
        Column("partition", "Partition", ("partition", "topic"), number=True),
        Column("state", "State", ("state",)),
        Column("kind", "Kind", ("kind",)),
        Column("count", "Offsets lost", ("count",), number=True),
        Column("first_lost", "First", ("first_lost",), number=True),
        Column("last_lost", "Last", ("last_lost",), number=True),
        Column("opened_at", "Found", ("opened_at",)),
        Column("closed_at", "Closed", ("closed_at",)),
        Column("decided_by", "Decided by", ("decided_by",)),
        Column("reason", "Reason"),
    ),
    search=("topic", "reason", "decided_by"),
    default="-opened_at",
    filters={"state": GAP.names, "kind": tuple(GapKind.values)},
    tie=("pk",),
)
JOBS = Question(
    columns=(
        Column("pk", "Job", ("pk",), number=True),
        Column("state", "State", ("state",)),
        Column("started_at", "Started", ("started_at",)),
        Column("ended_at", "Lasted", (), number=True),
        Column("records", "Records", ("records",), number=True),
        Column("bytes", "Bytes", ("bytes",), number=True),
        Column("attempt", "Attempt", ("attempt",), number=True),
        Column("generation", "Edition", ("generation",), number=True),
        Column("runner.name", "Runner", ("runner__name",)),
        Column("reason", "Reason"),
    ),
    search=("reason", "error", "runner__name"),
    default="-pk",
    filters={"state": tuple(JobState.values)},
)
TRANSITIONS = Question(
    columns=(
        Column("when", "When", ("pk",)),
        Column("field", "What", ("field",)),
        Column("to_state", "Change", ("to_state",)),
        Column("who", "Who", ("who",)),
        Column("why", "Why"),
    ),
    search=("who", "why", "to_state"),
    default="-when",
    filters={"field": ("desired_state", "observed_state", "settings")},
)
PARTS = {
    "topics": Part("Topics", "mirrors/flows/_topics.html", TOPICS, _topics),
    "partitions": Part("Partitions", "mirrors/flows/_partitions.html", PARTITIONS, _partitions),
    "groups": Part("Groups", "mirrors/groups/_flow_tab.html", GROUPS, _groups),
    "gaps": Part("Gaps", "mirrors/gaps/_flow_tab.html", GAPS, _gaps),
    "offsets": Part("Offsets", "mirrors/offsets/_flow_tab.html"),
    "readiness": Part("Readiness", "mirrors/drills/_readiness_tab.html", context=readiness_part),
    "heartbeats": Part("Heartbeats", "mirrors/heartbeats/_flow_tab.html", context=directions),
    "duties": Part("Duties", "mirrors/sync/_flow_tab.html", context=_duties),
    "plan": Part("Plan", "mirrors/topics/_plan_tab.html", context=plan_part),
    "drift": Part("Drift", "mirrors/topics/_drift_tab.html", DRIFT, _drift),
    "jobs": Part("Jobs and log", "mirrors/flows/_jobs.html", JOBS, _jobs, below=log_of_flow),
    "transitions": Part(
        "Transitions", "mirrors/flows/_transitions.html", TRANSITIONS, _transitions
    ),
    "configuration": Part("Configuration", "mirrors/flows/_configuration.html"),
    "history": Part("History", "mirrors/audit/_flow_tab.html", HISTORY, setting_changes),
    "audit": Part("Audit", "mirrors/audit/_entries.html", AUDIT, human_transitions),
}


LANES = Sheet("lane_shares", ("lane", "why", "batches", "percent", "records", "bytes"))


def lanes_of(job: Job | None) -> dict[str, Any]:
    return {"lane_shares": shares(LaneFigure(**row) for row in job.lanes) if job else []}


LOG = Sheet("log_entries", ("when", "level", "text"))
SHEETS = {
    "partitions": {"lanes": LANES},
    "heartbeats": {
        "heartbeats": Sheet(
            "directions",
            (
                "flow.name",
                "state",
                "age_ms",
                "every",
                "heartbeat.latency_ms",
                "heartbeat.clock_skew_ms",
                "place",
                "heartbeat.written_at",
                "heartbeat.as_of",
                "heartbeat.error",
            ),
        ),
    },
    "duties": {
        "duties": Sheet(
            "standings",
            (
                "schedule.name",
                "state",
                "last.started_at",
                "next_at",
                "interval_seconds",
                "last.counts",
                "last.error",
                "judgement.reason",
            ),
        ),
    },
    "plan": {"plan": Sheet("plan.changes", ("kind", "name", "before", "after", "reason"))},
    "configuration": {
        "settings": Sheet("settings", ("key", "value", "given", "meaning")),
        "changes": Sheet("changes", ("when", "key", "before", "after", "who", "generation")),
    },
    "readiness": {
        "readiness": Sheet(
            "lines", ("term.title", "term.points", "term.most", "term.sentence", "label", "link")
        ),
        "drills": Sheet(
            "drills",
            (
                "pk",
                "state",
                "created_at",
                "measured.rpo_ms",
                "measured.loss",
                "measured.rto_ms",
                "reason",
            ),
        ),
    },
    "jobs": {"log": LOG},
}
EXPLAINED = Sheet("verdict.rules", ("rule", "passed", "reason"))

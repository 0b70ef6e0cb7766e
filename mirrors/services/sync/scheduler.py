"""Sync tasks of flows: which are due, one run of each at a time, and the outcome.

To add one, write its function in a module of services and add its line to TABLE. The function gets
a SyncTaskContext, keeps to its deadline, and returns an Outcome: counts, and a sentence for each
thing that it left undone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.specs import FlowSpec
from mirrors.domain.sync.schedule import (
    Outcome,
    PastRuns,
    Schedule,
    ScheduleDecision,
    SyncTaskContext,
    judge,
)
from mirrors.domain.sync.tasks import (
    CHECKPOINTS,
    GROUP_OFFSETS,
    GROUPS,
    HEARTBEATS,
    OFFSET_SYNCS,
    PLAN,
    SCHEMAS,
    STANDBY,
    TOPIC_ACLS,
    TOPIC_CONFIGS,
)
from mirrors.models import DutyRun, Flow
from mirrors.models.flows import DesiredState
from mirrors.services.clock import Budget, milliseconds, moment
from mirrors.services.groups import mm2_checkpoints, mm2_offset_syncs, target_offsets
from mirrors.services.groups.survey import discover_groups, survey_of
from mirrors.services.schemas.sync import sync_schemas
from mirrors.services.standby import backup
from mirrors.services.sync.runs import (
    attempt,
    close_run,
    end_lost,
    last_runs,
    open_run,
    past_runs,
)
from mirrors.services.topics import acl_previews, acls, configs, plans

# Total time of one run's Kafka calls; the worker ends the run at 50 s.
DEADLINE_S = 40.0
# With less time left, a task that shares another one's survey runs later with its own.
LEAST_S = 10.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SyncTask:
    """One sync task: schedule and function. One without a function runs elsewhere.

    Due tasks of a flow with the same `survey` run together: the survey is made once, and each
    function gets it.
    """

    schedule: Schedule
    act: Callable[..., Outcome] | None = None
    survey: Callable[[SyncTaskContext], Any] | None = None


TABLE: tuple[SyncTask, ...] = (
    SyncTask(schedule=HEARTBEATS),
    SyncTask(schedule=TOPIC_CONFIGS, act=configs.sync_configs),
    SyncTask(schedule=TOPIC_ACLS, act=acls.sync_acls),
    SyncTask(schedule=SCHEMAS, act=sync_schemas),
    SyncTask(schedule=PLAN, act=plans.compute_plan),
    SyncTask(schedule=GROUPS, act=discover_groups),
    SyncTask(
        schedule=CHECKPOINTS,
        act=mm2_checkpoints.emit_checkpoints,
        survey=survey_of,
    ),
    SyncTask(schedule=GROUP_OFFSETS, act=target_offsets.move_groups, survey=survey_of),
    SyncTask(schedule=OFFSET_SYNCS, act=mm2_offset_syncs.write_offset_syncs),
    SyncTask(schedule=STANDBY, act=backup.back_up_flow),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SyncTaskStatus:
    """One sync task of a flow as pages and REST show it."""

    schedule: Schedule
    enabled: bool
    interval_seconds: int
    judgement: ScheduleDecision
    last: DutyRun | None

    @property
    def state(self) -> str:
        if not self.enabled:
            return "off"
        return "waiting" if self.last is None else self.last.state

    @property
    def next_at(self) -> datetime | None:
        seconds = self.judgement.next_at
        return None if seconds is None else moment(seconds * 1000)


def due_tasks(*, now: datetime) -> list[tuple[int, str]]:
    """(flow, task) for each due run; nothing is claimed yet, so calling it twice is harmless.

    Of due tasks that share a survey only the first is named: its run includes the others.
    """
    end_lost(now=now)
    flows = list(_flows())
    known = past_runs((flow.pk for flow in flows), now=now)
    return [
        (flow.pk, duty.schedule.name)
        for flow in flows
        if (spec := _spec(flow)) is not None
        for duty in _first_of_each_survey(_due(dict(_judged(flow, spec, known, now))))
    ]


def run_task(*, flow_id: int, name: str, now: datetime) -> bool:
    """Take the slot and run the task; False when it is not due or another worker took it.

    Due tasks that share its survey run with it.
    """
    flow = _flows().filter(pk=flow_id).first()
    if flow is None or (spec := _spec(flow)) is None:
        return False
    judged = dict(_judged(flow, spec, past_runs([flow_id], now=now), now))
    due = _due(judged)
    asked = next((duty for duty in due if duty.schedule.name == name), None)
    if asked is None:
        return False
    others = [duty for duty in due if duty.survey and duty.survey == asked.survey]
    runs: dict[SyncTask, DutyRun] = {}
    for duty in [asked, *(duty for duty in others if duty is not asked)]:
        slot = judged[duty].slot
        run = open_run(flow_id=flow_id, name=duty.schedule.name, slot=slot, now=now)
        if run is None and duty is asked:
            return False
        if run is not None:
            runs[duty] = run
    context = SyncTaskContext(
        flow_id=flow_id, spec=spec, now=milliseconds(now), deadline_s=DEADLINE_S
    )
    _run(runs, context)
    return True


def _run(runs: dict[SyncTask, DutyRun], context: SyncTaskContext) -> None:
    """Run tasks that have one survey or none. An error of the survey is the outcome of each."""
    budget = Budget(context.deadline_s)
    survey, error = _survey(next(iter(runs)), context)
    for at, (duty, run) in enumerate(runs.items()):
        outcome: Outcome | None = None
        failed = error
        if not error and duty.act is not None:
            if at and budget.left_s < LEAST_S:
                # It is still due, and its next run makes its own survey.
                run.delete()
                continue
            left = dataclasses.replace(context, deadline_s=budget.left_s)
            outcome, failed = attempt(
                duty.act, left, *survey, name=duty.schedule.name, flow_id=context.flow_id
            )
        fold = duty.schedule.is_frequent(context.spec.settings)
        close_run(run=run, outcome=outcome or Outcome(), error=failed, fold=fold)


def _survey(duty: SyncTask, context: SyncTaskContext) -> tuple[tuple[Any, ...], str]:
    """The survey as an argument of each function; none if the task needs none or it failed."""
    if duty.survey is None:
        return (), ""
    made, error = attempt(duty.survey, context, name=duty.schedule.name, flow_id=context.flow_id)
    return (made,), error


def _due(judged: dict[SyncTask, ScheduleDecision]) -> list[SyncTask]:
    return [duty for duty, found in judged.items() if found.due and duty.act is not None]


def _first_of_each_survey(duties: list[SyncTask]) -> list[SyncTask]:
    seen: set[Callable[[SyncTaskContext], Any]] = set()
    found = []
    for duty in duties:
        if duty.survey is None or duty.survey not in seen:
            found.append(duty)
        if duty.survey is not None:
            seen.add(duty.survey)
    return found


def task_statuses(*, flow: Flow, now: datetime) -> list[SyncTaskStatus]:
    """Every sync task of a flow: its last run, its next run, and why it has none."""
    if (spec := _spec(flow)) is None:
        return []
    last = last_runs(flow.pk)
    return [
        SyncTaskStatus(
            schedule=duty.schedule,
            enabled=duty.schedule.is_on(spec.settings),
            interval_seconds=duty.schedule.interval_s(spec.settings),
            judgement=judgement,
            last=last.get(duty.schedule.name),
        )
        for duty, judgement in _judged(flow, spec, past_runs([flow.pk], now=now), now)
    ]


def _flows() -> QuerySet[Flow]:
    return Flow.objects.select_related("source", "target", "acl_preview")


def _spec(flow: Flow) -> FlowSpec | None:
    """None for settings that only an older version accepted: a start reports them."""
    try:
        return flow.spec
    except InvalidSettings:
        return None


def _judged(
    flow: Flow, spec: FlowSpec, known: dict[tuple[int, str], PastRuns], now: datetime
) -> Iterator[tuple[SyncTask, ScheduleDecision]]:
    away = tuple(
        cluster.alias for cluster in (flow.source, flow.target) if cluster.reachable is False
    )
    for duty in TABLE:
        asked = away if not duty.schedule.at_rest else tuple({flow.target.alias} & set(away))
        yield (
            duty,
            judge(
                duty.schedule,
                spec.settings,
                known.get((flow.pk, duty.schedule.name), PastRuns()),
                now=milliseconds(now) // 1000,
                running=flow.desired_state == DesiredState.RUNNING,
                unreachable=asked,
                waits_for=acl_previews.why_task_waits(flow, spec)
                if duty.schedule is TOPIC_ACLS
                else "",
            ),
        )

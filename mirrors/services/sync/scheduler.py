"""Sync tasks of flows: which are due, one run of each at a time, and the outcome.

To add one, write its function in a module of services and add its line to TABLE. The function gets
a DutyContext, keeps to its deadline, and returns an Outcome: counts, and why something was skipped.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from datetime import datetime

from django.db import DatabaseError
from django.db.models import QuerySet

from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.specs import FlowSpec
from mirrors.domain.sync.schedule import DutyContext, Judgement, Outcome, Past, Schedule, judge
from mirrors.domain.sync.tasks import (
    CHECKPOINTS,
    GROUP_OFFSETS,
    GROUPS,
    HEARTBEATS,
    OFFSET_SYNCS,
    PLAN,
    STANDBY,
    TOPIC_ACLS,
    TOPIC_CONFIGS,
)
from mirrors.models import DutyRun, Flow
from mirrors.models.flows import DesiredState
from mirrors.services.clock import milliseconds, moment
from mirrors.services.groups import mm2_checkpoints, mm2_offset_syncs, target_offsets
from mirrors.services.run_lifecycle import broken
from mirrors.services.standby import backup
from mirrors.services.sync.runs import close_run, end_lost, last_runs, open_run, pasts
from mirrors.services.topics import acl_previews, acls, configs, plans

log = logging.getLogger(__name__)

# Total time of one run's Kafka calls; the worker ends the run at 50 s.
DEADLINE_S = 40.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Duty:
    """One sync task: schedule and function. One without a function runs elsewhere."""

    schedule: Schedule
    act: Callable[[DutyContext], Outcome] | None = None


TABLE: tuple[Duty, ...] = (
    Duty(schedule=HEARTBEATS),
    Duty(schedule=TOPIC_CONFIGS, act=configs.sync_configs),
    Duty(schedule=TOPIC_ACLS, act=acls.sync_acls),
    Duty(schedule=PLAN, act=plans.plan_duty),
    Duty(schedule=GROUPS, act=mm2_checkpoints.look_for_groups),
    Duty(schedule=CHECKPOINTS, act=mm2_checkpoints.emit_checkpoints),
    Duty(schedule=GROUP_OFFSETS, act=target_offsets.move_groups),
    Duty(schedule=OFFSET_SYNCS, act=mm2_offset_syncs.write_offset_syncs),
    Duty(schedule=STANDBY, act=backup.keep_flow),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Standing:
    """One sync task of a flow as pages and REST show it."""

    schedule: Schedule
    enabled: bool
    interval_seconds: int
    judgement: Judgement
    last: DutyRun | None

    @property
    def state(self) -> str:
        if not self.enabled:
            return "off"
        if self.last is None:
            return "waiting"
        if self.last.ended_at is None:
            return "running"
        if self.last.error:
            return "failed"
        return "partial" if self.last.counts.get("failed") else "succeeded"

    @property
    def next_at(self) -> datetime | None:
        seconds = self.judgement.next_at
        return None if seconds is None else moment(seconds * 1000)


def due_duties(*, now: datetime) -> list[tuple[int, str]]:
    """(flow, task) for each due run; nothing is claimed yet, so calling it twice is harmless."""
    end_lost(now=now)
    flows = list(_flows())
    known = pasts((flow.pk for flow in flows), now=now)
    return [
        (flow.pk, duty.schedule.name)
        for flow in flows
        if (spec := _spec(flow)) is not None
        for duty, judgement in _judged(flow, spec, known, now)
        if judgement.due and duty.act is not None
    ]


def run_duty(*, flow_id: int, name: str, now: datetime) -> bool:
    """Take the slot and run the task; False when it is not due or another worker took it."""
    duty = next((duty for duty in TABLE if duty.schedule.name == name), None)
    flow = _flows().filter(pk=flow_id).first()
    if duty is None or duty.act is None or flow is None or (spec := _spec(flow)) is None:
        return False
    judged = dict(_judged(flow, spec, pasts([flow_id], now=now), now))
    if not judged[duty].due:
        return False
    run = open_run(flow_id=flow_id, name=name, slot=judged[duty].slot, now=now)
    if run is None:
        return False
    context = DutyContext(flow_id=flow_id, spec=spec, now=milliseconds(now), deadline_s=DEADLINE_S)
    outcome, error = _attempt(duty.act, context, name)
    close_run(run=run, outcome=outcome, error=error, fold=duty.schedule.is_frequent(spec.settings))
    return True


def standings(*, flow: Flow, now: datetime) -> list[Standing]:
    """Every sync task of a flow: its last run, its next run, and why it has none."""
    if (spec := _spec(flow)) is None:
        return []
    last = last_runs(flow.pk)
    return [
        Standing(
            schedule=duty.schedule,
            enabled=duty.schedule.is_on(spec.settings),
            interval_seconds=duty.schedule.interval_s(spec.settings),
            judgement=judgement,
            last=last.get(duty.schedule.name),
        )
        for duty, judgement in _judged(flow, spec, pasts([flow.pk], now=now), now)
    ]


def _attempt(
    act: Callable[[DutyContext], Outcome], context: DutyContext, name: str
) -> tuple[Outcome, str]:
    """The outcome, or the sentence of the error that stopped the run."""
    try:
        return act(context), ""
    except UnderstudyError as error:
        return Outcome(), error.message
    except DatabaseError:
        raise
    except Exception as error:
        log.exception("sync task %s of flow %s raised an unexpected error", name, context.flow_id)
        return Outcome(), broken(error)


def _flows() -> QuerySet[Flow]:
    return Flow.objects.select_related("source", "target", "acl_preview")


def _spec(flow: Flow) -> FlowSpec | None:
    """None for settings that only an older version accepted: a start reports them."""
    try:
        return flow.spec
    except InvalidSettings:
        return None


def _judged(
    flow: Flow, spec: FlowSpec, known: dict[tuple[int, str], Past], now: datetime
) -> Iterator[tuple[Duty, Judgement]]:
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
                known.get((flow.pk, duty.schedule.name), Past()),
                now=milliseconds(now) // 1000,
                running=flow.desired_state == DesiredState.RUNNING,
                unreachable=asked,
                waits_for=acl_previews.waits_for(flow, spec) if duty.schedule is TOPIC_ACLS else "",
            ),
        )

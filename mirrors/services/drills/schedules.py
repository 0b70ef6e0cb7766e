"""Drill schedules, and the runs that a schedule or a person requests.

- A scheduled time is taken once, however many schedulers run. `since` moves by compare-and-set in
  the transaction that creates the run, and the run's slot is unique.
- Missed times count once: the latest one is run late, the others are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from mirrors.domain.cron import Cron, latest_run_ms, next_run_ms, zone_of
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.formatting import duration, plural
from mirrors.models import Drill, DrillRun, Flow
from mirrors.models.audit.transitions import note
from mirrors.services import run_lifecycle
from mirrors.services.clock import milliseconds, moment
from mirrors.services.errors import Conflict
from mirrors.services.failover.lifecycle import MOST_GROUPS

_LATE = timedelta(minutes=2)


def create_drill(
    *,
    flow: Flow,
    schedule: str,
    time_zone: str,
    groups: Iterable[str] = (),
    enabled: bool = True,
    who: str,
) -> Drill:
    """Its first run is at the next scheduled time, never at once."""
    facts = _checked(schedule, time_zone, groups)
    with transaction.atomic():
        drill = Drill.objects.create(flow=flow, enabled=enabled, changed_by=who[:150], **facts)
        note(drill, what="created", who=who, why=_sentence(drill))
    return drill


def update_drill(
    *,
    drill: Drill,
    schedule: str,
    time_zone: str,
    groups: Iterable[str],
    enabled: bool,
    who: str,
) -> Drill:
    """Scheduled times before the change are not run late."""
    facts = {**_checked(schedule, time_zone, groups), "enabled": enabled}
    with transaction.atomic():
        locked = Drill.objects.select_for_update().get(pk=drill.pk)
        if any(getattr(locked, name) != value for name, value in facts.items()):
            for name, value in facts.items():
                setattr(locked, name, value)
            locked.since, locked.changed_by = timezone.now(), who[:150]
            locked.save()
            note(locked, what="edited", who=who, why=_sentence(locked))
    return locked


def delete_drill(*, drill: Drill, who: str) -> None:
    """Certificates and runs remain."""
    with transaction.atomic():
        note(drill, what="deleted", who=who, why="Its history and certificates remain.")
        drill.delete()


def request_drill(*, flow: Flow, groups: Iterable[str] = (), who: str) -> DrillRun:
    """A drill that a person requests; a worker begins it within seconds."""
    chosen = _chosen(groups)
    run = _open_run(flow=flow, groups=chosen, who=who, why=f"Requested by {who}.")
    if run is None:
        raise Conflict(f"A drill of {flow.name} is already running. Wait until it ends.")
    run_lifecycle.send_on_commit("mirrors.tasks.run_drills")
    return run


def next_at(drill: Drill, *, now: datetime) -> datetime | None:
    """The next run; None while the schedule is off or never matches. A missed time is due now."""
    if not drill.enabled:
        return None
    since = milliseconds(drill.since)
    missed = latest_run_ms(drill.schedule, since=since, now=milliseconds(now), zone=drill.time_zone)
    if missed is not None:
        return moment(missed)
    coming = next_run_ms(drill.schedule, milliseconds(now), drill.time_zone)
    return None if coming is None else moment(coming)


def open_due_runs(*, now: datetime) -> int:
    """Open a run for every schedule that is due; returns how many this call opened."""
    busy = DrillRun.objects.filter(ended_at=None, flow__isnull=False).values("flow")
    drills = Drill.objects.filter(enabled=True).exclude(flow__in=busy)
    return sum(_take(drill, now) for drill in drills.select_related("flow__source", "flow__target"))


def _take(drill: Drill, now: datetime) -> bool:
    slot = latest_run_ms(
        drill.schedule, since=milliseconds(drill.since), now=milliseconds(now), zone=drill.time_zone
    )
    if slot is None:
        return False
    why = f"Scheduled for {moment(slot):%Y-%m-%d %H:%M} UTC."
    if (late := now - moment(slot)) > _LATE:
        why += f" It starts {duration(late.total_seconds() * 1000)} late: no worker ran it in time."
    with transaction.atomic():
        mine = Drill.objects.filter(pk=drill.pk, since=drill.since, enabled=True)
        if not mine.update(since=moment(slot)):
            return False
        run = _open_run(
            flow=drill.flow,
            groups=drill.groups,
            who=drill.changed_by,
            why=why,
            drill=drill,
            slot=slot,
        )
        if run is None:
            # A drill that a person requested was first: the scheduled time remains due.
            transaction.set_rollback(True)
    return run is not None


def _open_run(
    *,
    flow: Flow,
    groups: list[str],
    who: str,
    why: str,
    drill: Drill | None = None,
    slot: int | None = None,
) -> DrillRun | None:
    """None when this flow has an open run."""
    try:
        return run_lifecycle.request(
            DrillRun,
            refusal=f"A drill of {flow.name} is already running. Wait until it ends.",
            who=who,
            noted=why,
            drill=drill,
            slot=slot,
            schedule=f"{drill.schedule} {drill.time_zone}" if drill else "",
            flow=flow,
            flow_name=flow.name,
            groups=groups,
            reason=why,
        )
    except Conflict:
        return None


def _checked(schedule: str, time_zone: str, groups: Iterable[str]) -> dict[str, object]:
    wrong: dict[str, list[str]] = {}
    try:
        zone_of(time_zone)
    except ValueError as error:
        wrong["time_zone"] = [f"It {error}."]
    try:
        schedule = Cron().parse(schedule)
    except ValueError as error:
        wrong["schedule"] = [f"It {error}."]
    if wrong:
        raise InvalidSettings(wrong)
    return {"schedule": schedule, "time_zone": time_zone, "groups": _chosen(groups)}


def _chosen(groups: Iterable[str]) -> list[str]:
    chosen = sorted({group for group in groups if group})
    if len(chosen) > MOST_GROUPS:
        words = f"{len(chosen)} groups are more than the limit of {MOST_GROUPS} per run."
        raise InvalidSettings({"groups": [words]})
    return chosen


def _sentence(drill: Drill) -> str:
    whom = plural(len(drill.groups), "group") if drill.groups else "all groups"
    state = "" if drill.enabled else ", off"
    return f"{drill.schedule} {drill.time_zone}, {whom}{state}."

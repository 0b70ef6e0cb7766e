"""Settings of group synchronization: each one is read by its sync task."""

from __future__ import annotations

import pytest

from mirrors.domain.specs import FlowSettings
from mirrors.domain.sync.schedule import PastRuns, Schedule, judge
from mirrors.domain.sync.tasks import CHECKPOINTS, GROUP_OFFSETS, GROUPS, OFFSET_SYNCS
from mirrors.services.sync.scheduler import TABLE

CASES = [
    (GROUPS, "refresh.groups.enabled", "refresh.groups.interval.seconds", True, 30),
    (CHECKPOINTS, "emit.checkpoints.enabled", "emit.checkpoints.interval.seconds", True, 60),
    (GROUP_OFFSETS, "sync.group.offsets.enabled", "sync.group.offsets.interval.seconds", False, 60),
    (OFFSET_SYNCS, "emit.offset-syncs.enabled", "", True, 10),
]


@pytest.mark.parametrize(
    ("schedule", "switch", "interval", "on", "every"), CASES, ids=lambda case: str(case)[:20]
)
def test_a_duty_keeps_to_its_switch_and_its_interval(
    schedule: Schedule, switch: str, interval: str, on: bool, every: int
) -> None:
    usual = FlowSettings.from_properties({})
    assert (schedule.is_on(usual), schedule.interval_s(usual)) == (on, every)
    assert schedule in [duty.schedule for duty in TABLE]
    given = {switch: "true"} | ({interval: "7"} if interval else {})
    settings = FlowSettings.from_properties(given)
    period = 7 if interval else every
    times = range(3 * period + 1)
    past, ran = PastRuns(), []
    for now in times:
        judged = judge(schedule, settings, past, now=now, running=True)
        if judged.due:
            ran.append(now)
            past = PastRuns(slot=judged.slot)
    assert ran == [0, period, 2 * period, 3 * period]
    off = judge(
        schedule, FlowSettings.from_properties({switch: "false"}), PastRuns(), now=9, running=True
    )
    assert (off.due, off.reason) == (False, f"{switch} is false.")

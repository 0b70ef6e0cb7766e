"""When a sync task is due: once per interval, once for all missed runs, never while stopped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.specs import FlowSettings
from mirrors.domain.sync.schedule import PastRuns, Schedule, judge, total

SETTINGS = FlowSettings.from_properties({})
OFF = FlowSettings.from_properties({"refresh.topics.enabled": "false"})
EVERY_MINUTE = Schedule(name="look", does="Looks.", switch="refresh_topics_enabled", every_s=60)
MOMENT = 1_800_000_000


def test_a_duty_that_never_ran_is_due_at_once() -> None:
    verdict = judge(EVERY_MINUTE, SETTINGS, PastRuns(), now=MOMENT + 7, running=True)
    assert (verdict.due, verdict.slot) == (True, MOMENT)


def test_a_turn_that_was_taken_is_not_due_again_until_the_next() -> None:
    past = PastRuns(slot=MOMENT)
    verdict = judge(EVERY_MINUTE, SETTINGS, past, now=MOMENT + 59, running=True)
    assert (verdict.due, verdict.next_at) == (False, MOMENT + 60)
    assert judge(EVERY_MINUTE, SETTINGS, past, now=MOMENT + 60, running=True).due


@given(missed=st.integers(min_value=1, max_value=10_000), late=st.integers(0, 59))
def test_missed_turns_are_made_up_by_one_run(missed: int, late: int) -> None:
    now = MOMENT + 60 * missed + late
    verdict = judge(EVERY_MINUTE, SETTINGS, PastRuns(slot=MOMENT), now=now, running=True)
    assert verdict.due
    after = judge(EVERY_MINUTE, SETTINGS, PastRuns(slot=verdict.slot), now=now, running=True)
    assert not after.due


def test_a_duty_that_runs_is_not_started_beside_itself() -> None:
    past = PastRuns(slot=MOMENT, runs=True)
    verdict = judge(EVERY_MINUTE, SETTINGS, past, now=MOMENT + 120, running=True)
    assert (verdict.due, verdict.reason) == (False, "It is running.")


def test_duties_rest_with_the_flow_the_switch_and_a_dead_cluster_and_say_so() -> None:
    rests = judge(EVERY_MINUTE, SETTINGS, PastRuns(), now=MOMENT, running=False)
    assert not rests.due
    assert "stopped or paused" in rests.reason
    off = judge(EVERY_MINUTE, OFF, PastRuns(), now=MOMENT, running=True)
    assert (off.due, off.reason) == (False, "refresh.topics.enabled is false.")
    dead = judge(
        EVERY_MINUTE, SETTINGS, PastRuns(), now=MOMENT, running=True, unreachable=("east",)
    )
    assert not dead.due
    assert dead.reason.startswith("east does not respond")


def test_a_roll_up_adds_what_each_run_counted() -> None:
    assert total({"written": 2}, {"written": 3, "skipped": 1}) == {"written": 5, "skipped": 1}

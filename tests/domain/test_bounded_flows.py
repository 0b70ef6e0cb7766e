"""The state of a bounded flow: what it does now, when the next run begins, and why."""

from __future__ import annotations

from typing import Any

import pytest

from mirrors.domain.flows.schedule import RunSchedule, RunState, state_of_runs

MINUTE = 60_000
NOON = 1_767_268_800_000  # 2026-01-01 12:00 UTC
NIGHTLY = "30 2 * * *"
NEXT = NOON + (14 * 60 + 30) * MINUTE


OFFICE_HOURS = {"schedule": "0 8 * * 1-5", "minutes": "600"}


def standing(
    *,
    schedule: str | None = NIGHTLY,
    until: str | None = "end",
    minutes: str | None = None,
    desired: str = "stopped",
    rests_since: int | None = None,
    ran_since: int | None = None,
    now: int = NOON,
    waiting: int | None = None,
) -> RunState:
    keys = {"run.schedule": schedule, "run.until": until, "run.window.minutes": minutes}
    return state_of_runs(
        RunSchedule.of({key: text for key, text in keys.items() if text is not None}),
        desired=desired,
        asked_at=rests_since,
        by_itself=rests_since is not None,
        ran_since=ran_since,
        waiting=waiting,
        now=now,
    )


def test_a_flow_that_rests_between_two_runs_waits_for_the_next() -> None:
    found = standing(rests_since=NOON - 60 * MINUTE)
    assert (found.word, found.next_at) == ("waiting", NEXT)
    assert found.sentence == "The next run starts at 2026-01-02 02:30 UTC."


def test_a_run_that_was_missed_is_due_now() -> None:
    found = standing(rests_since=NOON - 48 * 60 * MINUTE)
    assert found.word == "waiting"
    assert found.next_at is not None
    assert found.next_at < NOON
    assert "is due and starts in a moment" in found.sentence


def test_a_run_whose_moment_passed_during_the_last_one_is_due_now() -> None:
    found = standing(rests_since=NOON - MINUTE, ran_since=NOON - 10 * 60 * MINUTE)
    assert (found.word, found.next_at) == ("waiting", NOON - (9 * 60 + 30) * MINUTE)
    assert "is due and starts in a moment" in found.sentence


def test_while_it_runs_it_says_until_where_and_when_the_next_begins() -> None:
    found = standing(desired="running")
    assert (found.word, found.next_at) == ("running", NEXT)
    assert "until the end offsets as of its start" in found.sentence
    until = standing(desired="running", schedule=None, until="2026-01-02T00:00:00Z")
    assert (until.next_at, until.sentence) == (None, "Running until 2026-01-02 00:00 UTC.")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "Stopped by a person"),
        ({"desired": "paused"}, "Paused by a person"),
        ({"schedule": None}, "Start the flow to begin the run"),
    ],
)
def test_what_a_person_holds_begins_by_no_schedule(facts: dict[str, Any], words: str) -> None:
    found = standing(**facts)
    assert (found.word, found.next_at) == ("held", None)
    assert words in found.sentence


def test_a_run_without_a_schedule_ends_for_good() -> None:
    found = standing(schedule=None, rests_since=NOON)
    assert (found.word, found.next_at) == ("ended", None)


def test_between_two_windows_it_says_what_waits_for_the_next() -> None:
    night = {"schedule": "0 22 * * *", "minutes": "480", "until": None}
    found = standing(**night, rests_since=NOON - 6 * 60 * MINUTE, waiting=4112)
    assert (found.word, found.next_at) == ("waiting", NOON + 600 * MINUTE)
    assert found.sentence == (
        "4,112 records wait for the window, which opens at 2026-01-01 22:00 UTC."
    )
    unknown = standing(**night, rests_since=NOON - 6 * 60 * MINUTE)
    assert unknown.sentence == "The next run starts at 2026-01-01 22:00 UTC."


def test_while_its_window_is_open_it_says_when_that_closes() -> None:
    found = standing(**OFFICE_HOURS, until=None, desired="running")
    assert found.ends_at == NOON + 360 * MINUTE
    assert found.sentence == (
        "Running until its window closes at 2026-01-01 18:00 UTC. "
        "The next run starts at 2026-01-02 08:00 UTC."
    )
    both = standing(**OFFICE_HOURS, desired="running")
    assert (
        "until the end offsets as of its start are replicated, or until its window closes"
        in both.sentence
    )


def test_a_schedule_that_never_comes_says_so() -> None:
    """An older edition took it."""
    never: dict[str, Any] = {"schedule": "0 0 31 4 *", "until": None, "minutes": "60"}
    for keys in ({**never, "minutes": None, "until": "end"}, never):
        found = standing(**keys, rests_since=NOON, waiting=7)
        assert (found.word, found.next_at) == ("waiting", None)
        assert found.sentence == "No next run: no day matches run.schedule=0 0 31 4 *. Change it."
        found = standing(**keys, desired="running")
        assert (found.word, found.next_at, found.ends_at) == ("running", None, None)
        assert "next run" not in found.sentence


def test_an_end_by_offsets_is_said_in_words() -> None:
    found = standing(schedule=None, until="orders:0:5", desired="running")
    assert found.sentence == "Running until the offsets in run.until are reached."

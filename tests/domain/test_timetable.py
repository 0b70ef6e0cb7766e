"""Where a bounded flow stands: what it does now, when the next run begins, and why."""

from __future__ import annotations

import pytest

from mirrors.domain.timetable import Standing, standing_of

MINUTE = 60_000
NOON = 1_767_268_800_000  # 2026-01-01 12:00 UTC
NIGHTLY = "30 2 * * *"
NEXT = NOON + (14 * 60 + 30) * MINUTE


def standing(**facts: object) -> Standing:
    given = {"schedule": NIGHTLY, "until": "end", "desired": "stopped", "rests_since": None}
    return standing_of(**{**given, "now": NOON, **facts})  # type: ignore[arg-type]


def test_a_flow_that_rests_between_two_runs_waits_for_the_next() -> None:
    found = standing(rests_since=NOON - 60 * MINUTE)
    assert (found.word, found.next_at) == ("waiting", NEXT)
    assert found.sentence == "The next run begins at 2026-01-02 02:30 UTC."


def test_a_run_that_was_missed_is_due_now() -> None:
    found = standing(rests_since=NOON - 48 * 60 * MINUTE)
    assert found.word == "waiting"
    assert found.next_at is not None
    assert found.next_at < NOON
    assert "is due and begins in a moment" in found.sentence


def test_while_it_runs_it_says_until_where_and_when_the_next_begins() -> None:
    found = standing(desired="running")
    assert (found.word, found.next_at) == ("running", NEXT)
    assert "until the ends as of its start" in found.sentence
    until = standing(desired="running", schedule=None, until="2026-01-02T00:00:00Z")
    assert (until.next_at, until.sentence) == (None, "It runs, until 2026-01-02 00:00 UTC.")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "A person stopped it"),
        ({"desired": "paused"}, "Paused by a person"),
        ({"schedule": None}, "Starting it begins the run"),
    ],
)
def test_what_a_person_holds_begins_by_no_schedule(facts: dict[str, object], words: str) -> None:
    found = standing(**facts)
    assert (found.word, found.next_at) == ("held", None)
    assert words in found.sentence


def test_a_run_without_a_schedule_ends_for_good() -> None:
    found = standing(schedule=None, rests_since=NOON)
    assert (found.word, found.next_at) == ("ended", None)

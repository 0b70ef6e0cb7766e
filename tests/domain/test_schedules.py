"""When bounded runs begin and end: cron in UTC, once for any number of moments missed."""

from __future__ import annotations

import datetime as dt

import pytest

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.schedules import is_due, next_run_ms, shown
from mirrors.domain.specs import FlowSettings


def at(text: str) -> int:
    return int(dt.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


def test_the_next_moment_lies_behind_the_one_given() -> None:
    assert next_run_ms("30 2 * * *", at("2026-11-21T02:29:59")) == at("2026-11-21T02:30:00")
    assert next_run_ms("30 2 * * *", at("2026-11-21T02:30:00")) == at("2026-11-22T02:30:00")
    assert next_run_ms("0 0 29 2 *", at("2026-11-21T00:00:00")) == at("2028-02-29T00:00:00")


def test_moments_that_were_missed_count_once() -> None:
    rested, now = at("2026-11-21T02:31:00"), at("2026-11-25T00:00:00")
    assert is_due("30 2 * * *", rests_since=rested, now=now)
    assert not is_due("30 2 * * *", rests_since=now, now=now)


def test_a_moment_is_shown_in_utc() -> None:
    assert shown(at("2026-11-21T02:30:00")) == "2026-11-21 02:30 UTC"


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"run.schedule": "0 2 * * *"}, "run.schedule needs run.until"),
        ({"run.schedule": "0 2 * * *", "run.until": "1700000000000"}, "needs run.until=end"),
        ({"run.schedule": "0 25 * * *", "run.until": "end"}, "five fields of cron"),
        ({"run.schedule": "@daily", "run.until": "end"}, "five fields of cron"),
        ({"run.schedule": "* * * * * *", "run.until": "end"}, "five fields of cron"),
        ({"run.until": "latest"}, "run.until must be end, milliseconds"),
        ({"run.until": "2026-11-21T08:30:00"}, "time zone"),
    ],
)
def test_what_cannot_be_run_is_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidSettings, match=words):
        FlowSettings.from_properties(properties)


def test_an_end_is_the_ends_or_a_moment() -> None:
    assert FlowSettings.from_properties({}).run_until is None
    settings = FlowSettings.from_properties({"run.until": "end", "run.schedule": " 0  2 * * * "})
    assert (settings.run_until, settings.run_until_ms) == ("end", None)
    assert settings.run_schedule == "0 2 * * *"
    assert FlowSettings.from_properties({"run.until": "1700000000000"}).run_until_ms == 1.7e12

"""Start times of bounded runs and drills: cron by a clock, once for any number of missed times."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.cron import Cron, latest_run_ms, next_run_ms, shown, zone_of
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.specs import FlowSettings
from tests.domain.cases import laws


def at(text: str) -> int:
    return int(dt.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


def test_the_next_moment_lies_behind_the_one_given() -> None:
    assert next_run_ms("30 2 * * *", at("2026-11-21T02:29:59")) == at("2026-11-21T02:30:00")
    assert next_run_ms("30 2 * * *", at("2026-11-21T02:30:00")) == at("2026-11-22T02:30:00")
    assert next_run_ms("0 0 29 2 *", at("2026-11-21T00:00:00")) == at("2028-02-29T00:00:00")


def test_a_moment_is_shown_in_utc() -> None:
    assert shown(at("2026-11-21T02:30:00")) == "2026-11-21 02:30 UTC"


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"run.schedule": "0 2 * * *"}, "run.schedule needs run.until"),
        ({"run.schedule": "0 2 * * *", "run.until": "1700000000000"}, "needs run.until=end"),
        ({"run.schedule": "0 25 * * *", "run.until": "end"}, "five cron fields"),
        ({"run.schedule": "@daily", "run.until": "end"}, "five cron fields"),
        ({"run.schedule": "* * * * * *", "run.until": "end"}, "five cron fields"),
        ({"run.schedule": "0 0 31 4 *", "run.until": "end"}, "run.schedule never runs"),
        ({"run.schedule": "0 0 30,31 2 *", "run.window.minutes": "60"}, "never runs"),
        ({"run.schedule": "R R * * *", "run.until": "end"}, "must give exact times"),
        ({"run.schedule": "0,r(1-30) * * * *", "run.until": "end"}, "must give exact times"),
        ({"run.schedule": "H * * * *", "run.until": "end"}, "must give exact times"),
        ({"run.window.minutes": "60"}, "run.window.minutes needs run.schedule"),
        ({"run.schedule.zone": "UTC"}, "run.schedule.zone needs run.schedule"),
        (
            {"run.schedule": "0 2 * * *", "run.until": "end", "run.schedule.zone": "Europe"},
            "run.schedule.zone must be an IANA time zone",
        ),
        ({"run.schedule": "0 2 * * *", "run.window.minutes": "0"}, "from 1 to 40320"),
        (
            {"run.schedule": "0 2 * * *", "run.until": "t:0:1", "run.window.minutes": "9"},
            "run.schedule needs run.until=end",
        ),
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


@pytest.mark.parametrize("text", ["0 0 29 2 *", "0 9 * mar,apr fri,thu", "0 0 L * *", "0 0 31 4 1"])
def test_what_comes_seldom_or_by_a_name_is_taken(text: str) -> None:
    assert Cron().parse(text) == text


def test_what_an_older_edition_took_and_never_comes_has_no_moment() -> None:
    assert next_run_ms("0 0 31 4 *", at("2026-11-21T00:00:00"), "Europe/Berlin") is None
    now = at("2026-11-21T00:00:00")
    assert latest_run_ms("0 0 31 4 *", since=0, now=now, zone="Europe/Berlin") is None


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("2026-03-27T12:00:00", "2026-03-28T01:30:00"),
        # 02:30 does not exist on the day when clocks go forward: right after the hour that is not.
        ("2026-03-28T12:00:00", "2026-03-29T01:30:00"),
        ("2026-03-29T12:00:00", "2026-03-30T00:30:00"),
        # 02:30 comes twice when clocks go back: the first time counts, and only that.
        ("2026-10-24T12:00:00", "2026-10-25T00:30:00"),
        ("2026-10-25T00:30:00", "2026-10-26T01:30:00"),
    ],
)
def test_the_clocks_of_a_time_zone_decide(after: str, expected: str) -> None:
    assert next_run_ms("30 2 * * *", at(after), "Europe/Berlin") == at(expected)


def test_of_moments_that_were_missed_the_latest_is_made_up_once() -> None:
    since, now = at("2026-10-20T00:00:00"), at("2026-10-26T00:30:00")
    latest = latest_run_ms("30 2 * * *", since=since, now=now, zone="Europe/Berlin")
    assert latest == at("2026-10-25T00:30:00")
    assert latest_run_ms("30 2 * * *", since=latest, now=now, zone="Europe/Berlin") is None
    later = at("2026-10-26T01:30:00")
    assert latest_run_ms("30 2 * * *", since=latest, now=later, zone="Europe/Berlin") == later


@laws
@given(
    st.integers(at("2024-01-01T00:00:00"), at("2030-01-01T00:00:00")),
    st.integers(0, 40 * 86_400_000),
    st.sampled_from(["30 2 * * *", "*/7 * * * *", "0 2,3 * * 0", "59 23 28-31 * *"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
)
def test_the_latest_moment_behind_one_is_the_end_of_the_chain_of_next_ones(
    since: int, more: int, schedule: str, zone: str
) -> None:
    now = since + more % (3 * 86_400_000)
    chain = None
    found = next_run_ms(schedule, since, zone)
    while found <= now:
        chain, found = found, next_run_ms(schedule, found, zone)
    assert latest_run_ms(schedule, since=since, now=now, zone=zone) == chain


@pytest.mark.parametrize("name", ["", "Europe", "Nowhere/Else", "../etc/passwd", "/etc/passwd"])
def test_a_zone_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be an IANA time zone"):
        zone_of(name)

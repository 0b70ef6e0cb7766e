"""Time windows: whether one is open, when it closes, when a flow runs in it; by any clock."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.cron import next_run_ms
from mirrors.domain.flows.schedule import RunSchedule, Window
from tests.domain.cases import laws

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
# A schedule, and how long its windows may be.
KINDS = st.sampled_from(
    [("0 22 * * *", 700), ("30 2 * * 1-5", 90), ("*/30 * * * *", 29), ("0 2,3 * * 0", 120)]
)


def at(text: str) -> int:
    return int(dt.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Window, int]:
    """A window and a moment, often one beside a change of clocks or beside an edge."""
    schedule, longest = draw(KINDS)
    length = draw(st.integers(1, longest)) * MINUTE
    window = Window(schedule=schedule, zone=draw(ZONES), length=length)
    changes = ["2026-03-29T01:00:00", "2026-10-25T01:00:00", "2026-04-04T15:00:00"]
    near = st.builds(
        lambda change, off: at(change) + off,
        st.sampled_from(changes),
        st.integers(-2 * DAY, 2 * DAY),
    )
    now = draw(st.one_of(near, st.integers(at("2024-01-01T00:00:00"), at("2030-01-01T00:00:00"))))
    opens = next_run_ms(schedule, now, window.zone)
    edge = draw(st.sampled_from([None, opens, opens + length]))
    return window, now if edge is None else edge + draw(st.integers(-1, 1))


def openings(window: Window, since: int, until: int) -> list[int]:
    found = [next_run_ms(window.schedule, since, window.zone)]
    while found[-1] <= until:
        found.append(next_run_ms(window.schedule, found[-1], window.zone))
    return found


@laws
@given(cases())
def test_it_is_open_from_each_moment_of_its_schedule_on_and_no_longer_than_its_length(
    case: tuple[Window, int],
) -> None:
    window, now = case
    opened = openings(window, now - window.length - DAY, now)
    assert window.is_open(now) == any(one <= now < one + window.length for one in opened)


@laws
@given(cases())
def test_it_closes_at_the_first_end_that_no_other_window_goes_on_from(
    case: tuple[Window, int],
) -> None:
    window, now = case
    horizon = now + 8 * DAY
    opened = openings(window, now - window.length - DAY, horizon + window.length)
    ends = [one + window.length for one in opened]
    expected = next(
        end
        for end in ends
        if end > now and not any(one <= end < one + window.length for one in opened)
    )
    assert window.closes_after(now) == expected
    assert window.is_open(expected - 1)
    assert not window.is_open(expected)


@laws
@given(cases())
def test_between_two_edges_nothing_changes(case: tuple[Window, int]) -> None:
    window, now = case
    if window.is_open(now):
        closes = window.closes_after(now)
        assert closes is not None
        assert all(window.is_open(now + (closes - 1 - now) * part // 4) for part in range(5))
    else:
        opens = window.opens_after(now)
        assert window.is_open(opens)
        assert not any(window.is_open(now + (opens - 1 - now) * part // 4) for part in range(5))


def test_windows_without_a_gap_between_them_never_close() -> None:
    window = Window(schedule="0 * * * *", zone="UTC", length=60 * MINUTE)
    assert window.closes_after(at("2026-11-21T08:30:00")) is None
    assert window.is_open(at("2026-11-21T09:00:00"))


@pytest.mark.parametrize(
    ("evening", "opens", "closes"),
    [
        ("2026-03-27T12:00:00", "2026-03-27T21:00:00", "2026-03-28T05:00:00"),
        # Clocks go forward: eight hours pass until 07:00 by the wall.
        ("2026-03-28T12:00:00", "2026-03-28T21:00:00", "2026-03-29T05:00:00"),
        ("2026-03-29T12:00:00", "2026-03-29T20:00:00", "2026-03-30T04:00:00"),
        # Clocks go back: until 05:00 by the wall.
        ("2026-10-24T12:00:00", "2026-10-24T20:00:00", "2026-10-25T04:00:00"),
        ("2026-10-25T12:00:00", "2026-10-25T21:00:00", "2026-10-26T05:00:00"),
    ],
)
def test_it_opens_by_the_wall_and_lasts_as_long_as_it_says(
    evening: str, opens: str, closes: str
) -> None:
    window = Window(schedule="0 22 * * *", zone="Europe/Berlin", length=480 * MINUTE)
    assert window.opens_after(at(evening)) == at(opens)
    assert window.closes_after(at(evening)) == at(closes)


NIGHT = {"run.schedule": "0 22 * * *", "run.window.minutes": "480"}
NOON, MIDNIGHT, SIX = (at(f"2026-11-21T{time}:00") for time in ("12:00", "00:00", "06:00"))
TEN = at("2026-11-21T22:00:00")


@pytest.mark.parametrize(
    ("extra", "rests_since", "now", "expected"),
    [
        # Of nights that were missed nothing is made up by day.
        ({}, NOON - 9 * DAY, NOON, TEN),
        ({}, NOON, TEN, TEN),
        ({}, NOON, TEN + 60 * MINUTE, TEN + 60 * MINUTE),
        # Stopped early in the night by its window as it was before an edit: it belongs there now.
        ({}, MIDNIGHT, MIDNIGHT + MINUTE, MIDNIGHT + MINUTE),
        # With an end as well, one run a night.
        ({"run.until": "end"}, MIDNIGHT, MIDNIGHT + MINUTE, TEN),
        ({"run.until": "end"}, SIX, TEN, TEN),
        ({"run.until": "end"}, NOON - 9 * DAY, NOON, TEN),
    ],
)
def test_a_flow_at_rest_begins_while_its_window_is_open(
    extra: dict[str, str], rests_since: int, now: int, expected: int
) -> None:
    runs = RunSchedule.of({**NIGHT, **extra})
    assert runs.begins(rests_since=rests_since, now=now) == expected


def test_without_a_window_moments_that_were_missed_count_once() -> None:
    runs = RunSchedule.of({"run.schedule": "30 2 * * *", "run.until": "end"})
    missed = runs.begins(rests_since=NOON - 3 * DAY, now=NOON)
    assert missed == at("2026-11-19T02:30:00")
    assert runs.begins(rests_since=NOON, now=NOON) == at("2026-11-22T02:30:00")
    assert RunSchedule.of({}).begins(rests_since=NOON, now=NOON) is None


def test_moments_that_pass_while_a_run_goes_on_count_once() -> None:
    """Of an hourly run that takes 70 minutes the next one begins at once."""
    began, ended = NOON + MINUTE // 60, NOON + 70 * MINUTE
    hourly = RunSchedule.of({"run.schedule": "0 * * * *", "run.until": "end"})
    assert hourly.begins(ran_since=began, rests_since=ended, now=ended) == NOON + 60 * MINUTE
    second = ended + MINUTE
    third = hourly.begins(ran_since=second, rests_since=second + MINUTE, now=second + MINUTE)
    assert third == NOON + 120 * MINUTE
    # In a window one run is had, whenever it began.
    nightly = RunSchedule.of({**NIGHT, "run.until": "end"})
    late = TEN + 60 * MINUTE
    assert nightly.begins(ran_since=NOON, rests_since=late, now=late) == TEN + DAY


def test_a_schedule_is_read_by_the_clocks_of_its_zone() -> None:
    runs = RunSchedule.of({**NIGHT, "run.schedule.zone": "Asia/Tokyo"})
    assert runs.begins(rests_since=NOON, now=NOON) == at("2026-11-21T13:00:00")


@pytest.mark.parametrize(
    ("asked_at", "insists", "now", "expected"),
    [
        (TEN - DAY, False, MIDNIGHT, SIX),
        # Its window was moved, or closed while nobody looked: it is over.
        (TEN - DAY, False, NOON, SIX),
        # Put into service by day: it waits. Who insists has it until the next window closes.
        (NOON, False, NOON + MINUTE, NOON),
        (NOON, True, NOON + MINUTE, SIX + DAY),
        (NOON, True, TEN + MINUTE, SIX + DAY),
        (NOON - DAY, True, NOON, SIX),
    ],
)
def test_a_run_ends_with_its_window_and_a_persons_word_with_the_next(
    asked_at: int, insists: bool, now: int, expected: int
) -> None:
    assert RunSchedule.of(NIGHT).ends(asked_at=asked_at, insists=insists, now=now) == expected
    assert RunSchedule.of({}).ends(asked_at=asked_at, insists=insists, now=now) is None


def test_half_of_a_run_may_go_by_with_what_waited_for_it() -> None:
    runs = RunSchedule.of(NIGHT)
    for now in (TEN, TEN + 60 * MINUTE):
        assert runs.catches_up_until(asked_at=TEN, now=now) == TEN + 240 * MINUTE
    assert RunSchedule.of({}).catches_up_until(asked_at=TEN, now=TEN) is None
    always = RunSchedule.of({"run.schedule": "0 * * * *", "run.window.minutes": "60"})
    assert always.catches_up_until(asked_at=TEN, now=TEN) is None

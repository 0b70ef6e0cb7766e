"""Properties of alerts: fire after the hold time, resolve, never from stale figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitoring.domain.alerts.conditions import read_flow, read_runner
from monitoring.domain.alerts.rules import (
    KINDS,
    Condition,
    ConditionResult,
    FlowFacts,
    ForecastFacts,
    RunnerFacts,
    decide,
    problems_of,
    rules_of,
)
from tests.account_rows import owing

NOW = datetime(2026, 11, 21, 2, 14, tzinfo=UTC)
RPO = Condition(kind="time_lag", threshold=30.0, for_s=20)


def flow(**changes: Any) -> FlowFacts:
    """`owes`, `lag_ms`, `unknown` and `seen` make its account."""
    owes, lag_ms = changes.pop("owes", 5), changes.pop("lag_ms", 1_000)
    seen = round(changes.pop("seen", changes.get("as_of") or NOW).timestamp() * 1000)
    account = owing(owes, lag_ms=lag_ms, seen=seen, unknown=changes.pop("unknown", 0))
    facts = {"name": "east->west", "desired": "running", "state": "running", "as_of": NOW}
    return FlowFacts(**{**facts, "account": account, **changes})


def run(values: list[float | None], condition: Condition) -> list[str]:
    """What one alert does clears readings ten seconds apart."""
    state, since, steps = None, None, []
    for number, value in enumerate(values):
        now = NOW + timedelta(seconds=10 * number)
        lag = None if value is None else int(value * 1000)
        reading = read_flow(condition, flow(as_of=now, lag_ms=lag), now)
        step = decide(state, since, reading, condition, now)
        if step == "begin":
            state, since = "pending", now
        elif step == "fire":
            state = "firing"
        elif step in {"resolve", "drop"}:
            state = since = None
        steps.append(step)
    return steps


def test_it_fires_after_holding_and_resolves_once_it_is_clearly_better() -> None:
    steps = run([5, 40, 45, 50, 60, 29, 31, 25, 24, 5], RPO)
    assert steps == [
        *("nothing", "begin", "nothing", "fire", "nothing"),
        # Below the threshold, yet not clearly: no flapping.
        *("nothing", "nothing", "nothing", "resolve", "nothing"),
    ]


def test_a_short_peak_calls_nobody() -> None:
    assert run([40, 40, 5], RPO) == ["begin", "nothing", "drop"]


def test_what_nobody_knows_neither_fires_nor_resolves() -> None:
    assert run([40, 40, 40, None, None, 5], RPO)[2:] == ["fire", "nothing", "nothing", "resolve"]
    assert run([None] * 5, RPO) == ["nothing"] * 5


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.none() | st.floats(0, 120), max_size=60), st.integers(0, 60))
def test_firing_and_resolving_alternate_and_each_firing_was_earned(
    values: list[float | None], for_s: int
) -> None:
    condition = Condition(kind="time_lag", threshold=30.0, for_s=for_s)
    steps = run(values, condition)
    told = [step for step in steps if step in {"fire", "resolve"}]
    assert told == (["fire", "resolve"] * len(told))[: len(told)]
    for at, step in enumerate(steps):
        value = values[at]
        if step == "fire":
            assert value is not None
            assert value > 30
            # Over the threshold, or unknown, for as long as was asked.
            held = values[at - -(-for_s // 10) : at] if for_s else []
            assert all(one is None or int(one * 1000) > 30_000 for one in held)
        if step == "resolve":
            assert value is not None
            assert value <= 24.001


def test_a_paused_flow_falls_behind_all_the_same_a_stopped_one_is_left_alone() -> None:
    paused = flow(desired="paused", state="paused", lag_ms=60_000)
    assert read_flow(RPO, paused, NOW).holds is True
    assert read_flow(RPO, flow(desired="stopped", lag_ms=60_000), NOW).clears is True


IN_WINDOW = {"began_at": NOW - timedelta(minutes=3), "catches_up_until": NOW + timedelta(hours=4)}


def test_what_waited_for_its_window_calls_nobody_before_half_of_it_is_over() -> None:
    night = flow(lag_ms=8 * 3_600_000, **IN_WINDOW)
    found = read_flow(RPO, night, NOW)
    assert (found.holds, found.clears, found.value) == (False, True, None)
    assert found.sentence.endswith("5 records: a backlog of its window, which opened 3 min ago")
    many = read_flow(Condition(kind="offset_lag", threshold=3), night, NOW)
    assert (many.holds, many.clears) == (False, True)
    half_over = NOW + timedelta(hours=4)
    late = flow(as_of=half_over, lag_ms=8 * 3_600_000, **IN_WINDOW)
    assert read_flow(RPO, late, half_over).holds is True
    assert read_flow(Condition(kind="offset_lag", threshold=3), late, half_over).holds is True


def test_what_was_written_since_the_window_opened_counts_as_ever() -> None:
    assert read_flow(RPO, flow(lag_ms=120_000, **IN_WINDOW), NOW).holds is True
    assert read_flow(RPO, flow(lag_ms=8 * 3_600_000), NOW).holds is True
    # Nobody knows how old it is.
    many = Condition(kind="offset_lag", threshold=3)
    assert read_flow(many, flow(lag_ms=None, **IN_WINDOW), NOW).holds is True


def test_a_flow_stands_only_while_its_source_grows() -> None:
    stands = Condition(kind="stands", threshold=60.0)
    still = {"moved_at": NOW - timedelta(minutes=3), "lag_when_moved": 40}
    grown = read_flow(stands, flow(owes=90, **still), NOW)
    assert grown.holds is True
    assert grown.sentence == "replicated nothing for 3 min while its source grew by 50"
    calm = read_flow(stands, flow(owes=40, **still), NOW)
    assert (calm.clears, calm.sentence) == (True, "copies at the rate of its source")
    assert read_flow(stands, flow(desired="paused", owes=90, **still), NOW).clears is True


def test_states_are_told_with_their_reasons() -> None:
    failed = flow(state="failed", reason="The topic orders was deleted.")
    reading = read_flow(Condition(kind="flow_failed"), failed, NOW)
    assert (reading.holds, reading.sentence) == (True, "is failed: The topic orders was deleted")
    degraded = Condition(kind="flow_degraded")
    assert read_flow(degraded, flow(state="backing_off"), NOW).sentence == "is backing off"
    assert read_flow(degraded, flow(), NOW).clears is True
    assert read_flow(degraded, flow(state="starting"), NOW).clears is True
    again = read_flow(degraded, flow(state="starting", failures=2), NOW)
    assert again.sentence == "restarts after 2 failures in a row"


def test_a_gap_is_told_until_it_is_decided() -> None:
    gap = Condition(kind="gap")
    assert read_flow(gap, flow(gaps=1), NOW).sentence == "has 1 gap that waits for a decision"
    assert read_flow(gap, flow(), NOW).clears is True


def test_silence_of_a_flow_that_should_run_is_itself_a_thing_to_tell() -> None:
    stale = Condition(kind="stale", threshold=60.0)
    silent = flow(as_of=NOW - timedelta(minutes=2))
    assert read_flow(stale, silent, NOW).sentence == "sent no metrics for 2 min"
    never = flow(as_of=None, since=NOW - timedelta(minutes=2))
    assert read_flow(stale, never, NOW).holds is True
    assert read_flow(stale, flow(desired="paused", as_of=None), NOW).clears is True


def test_a_runner_that_nobody_needs_may_be_gone() -> None:
    gone = RunnerFacts(name="default", state="lost", needed=True, reason="It is silent.")
    assert read_runner(Condition(kind="runner_down"), gone, NOW) == ConditionResult(
        True, False, None, "is lost: It is silent"
    )
    idle = RunnerFacts(name="default", state="absent", needed=False)
    assert read_runner(Condition(kind="runner_down"), idle, NOW).clears is True


def test_a_runner_that_moved_alerts_for_a_quarter_of_an_hour_with_the_reason() -> None:
    moved = RunnerFacts(
        name="default",
        state="ready",
        needed=True,
        moved_at=NOW - timedelta(minutes=14),
        move_reason="a was not seen for 31 s.",
    )
    rule = Condition(kind="runner_moved")
    told = ConditionResult(True, False, None, "moved: a was not seen for 31 s")
    assert read_runner(rule, moved, NOW) == told
    assert read_runner(rule, moved, NOW + timedelta(minutes=2)).clears is True
    still = RunnerFacts(name="default", state="ready", needed=True)
    assert read_runner(rule, still, NOW).clears is True


def test_a_flow_s_own_rules_replace_the_general_ones_of_their_kind() -> None:
    rules = [
        SimpleNamespace(kind=kind, flow_id=of)
        for kind, of in (("time_lag", None), ("time_lag", 7), ("stale", None), ("stale", 8))
    ]
    assert [(rule.kind, rule.flow_id) for rule in rules_of(rules, 7)] == [
        ("time_lag", 7),
        ("stale", None),
    ]


def outlook(**changes: Any) -> ForecastFacts:
    nothing = {"offset_lag": 0, "moved_at": None, "lag_when_moved": None, "loses_at": None}
    rest = {"loss": "", "held_since": None, "held_records": 0}
    return ForecastFacts(as_of=NOW, **{**nothing, **rest, **changes})


def test_a_forecast_counts_below_its_threshold_and_clears_well_above_it() -> None:
    soon = Condition(kind="forecast", threshold=3_600.0)

    def ask(minutes: int) -> ConditionResult:
        seen = outlook(loses_at=NOW + timedelta(minutes=minutes), loss="will lose data")
        return read_flow(soon, flow(outlook=seen, desired="paused"), NOW)

    assert (ask(50).holds, ask(50).sentence, ask(50).value) == (True, "will lose data", 3_000)
    assert (ask(70).holds, ask(70).clears) == (False, False)
    assert ask(80).clears is True
    assert ask(-5).value == 0
    assert read_flow(soon, flow(outlook=outlook()), NOW).clears is True


@pytest.mark.parametrize("kind", ["time_lag", "offset_lag"])
def test_a_part_of_the_source_that_was_seen_long_ago_clears_no_lag(kind: Any) -> None:
    """A runner reports on while one broker of its source is away."""
    condition, seen = Condition(kind=kind, threshold=30.0), NOW - timedelta(seconds=40)
    quiet = read_flow(condition, flow(owes=0, lag_ms=0, seen=seen), NOW)
    assert (quiet.holds, quiet.clears) == (None, False)
    late = read_flow(condition, flow(owes=99, lag_ms=31_000, seen=seen), NOW)
    assert late.holds
    assert "99 records (seen 40 s ago)" in late.sentence
    assert read_flow(condition, flow(owes=0, lag_ms=0), NOW).clears


@pytest.mark.parametrize("kind", ["time_lag", "offset_lag", "stands", "stale", "heartbeat"])
def test_between_two_windows_no_lag_calls_anybody(kind: Any) -> None:
    """Its runner has ended the run, then its row says so: stopped from the first moment on."""
    ago = NOW - timedelta(hours=9)
    behind = outlook(offset_lag=90_000, moved_at=ago, lag_when_moved=0)
    facts = {"as_of": ago, "heartbeat_at": ago, "moved_at": ago, "outlook": behind}
    for state in ("running", "stopped"):
        waits = flow(desired="stopped", state=state, owes=90_000, **facts)
        assert read_flow(Condition(kind=kind, threshold=1.0), waits, NOW).clears is True
    late = flow(state="running", lag_ms=9_000, **{**facts, "as_of": NOW})
    assert read_flow(Condition(kind=kind, threshold=1.0), late, NOW).holds is (kind != "stale")


def test_a_heartbeat_and_checkpoints_grow_old_only_where_they_are_asked_for() -> None:
    beat = Condition(kind="heartbeat", threshold=120.0)
    old = {"heartbeat_at": NOW - timedelta(minutes=5)}
    words = "last received a heartbeat on its target 5 min ago"
    assert read_flow(beat, flow(**old), NOW).sentence == words
    assert read_flow(beat, flow(**old, heartbeats_on=False), NOW).clears is True
    assert read_flow(beat, flow(**old, desired="paused"), NOW).clears is True
    written = Condition(kind="checkpoint", threshold=600.0)
    ago = {"checkpoint_at": NOW - timedelta(minutes=11)}
    assert read_flow(written, flow(**ago), NOW).holds is True
    assert read_flow(written, flow(**ago, checkpoints_on=False), NOW).clears is True
    never = flow(since=NOW - timedelta(hours=1))
    assert read_flow(written, never, NOW).holds is True


def test_a_transaction_left_open_says_how_much_it_keeps_back() -> None:
    asked = Condition(kind="open_transaction", threshold=900.0)
    seen = outlook(held_since=NOW - timedelta(minutes=20), held_records=7)
    reading = read_flow(asked, flow(outlook=seen), NOW)
    assert reading.holds is True
    assert reading.sentence.startswith("cannot replicate 7 records: a transaction")
    assert read_flow(asked, flow(outlook=outlook()), NOW).clears is True


def test_a_rule_that_cannot_work_is_named_by_field() -> None:
    assert problems_of("gap", None, None) == {}
    assert list(problems_of("time_lag", None, None)) == ["threshold"]
    assert list(problems_of("time_lag", 10, 11)) == ["clear_below"]
    assert list(problems_of("forecast", 10, 5)) == ["clear_below"]
    assert list(problems_of("runner_down", None, None, has_flow=True)) == ["flow"]
    assert problems_of("gap", None, None, has_flow=True) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_ever_fires_from_nothing_known(kind: Any) -> None:
    unknown = flow(as_of=None, owes=None, lag_ms=None)
    assert not read_flow(Condition(kind=kind, threshold=1.0), unknown, NOW).holds

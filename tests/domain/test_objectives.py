"""Drills are compared with objectives: what was missed by how much, and what counts as missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mirrors.domain.drills.measurement import FlowFigures, StepTimes, measure
from mirrors.domain.drills.objectives import Measurement, Objectives, judge, result_text
from mirrors.domain.errors import InvalidSettings

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
GOOD = Measurement(
    groups=2, places=4, proven=4, re_reads=0, loss=0, loss_is="counted", rpo_ms=0, rto_ms=4_200
)


def measured(**facts: Any) -> Measurement:
    return Measurement(**{**GOOD.__dict__, **facts})


def step(name: str, start: float, end: float | None) -> StepTimes:
    ended = None if end is None else NOW + timedelta(seconds=end)
    return StepTimes(name=name, started_at=NOW + timedelta(seconds=start), ended_at=ended)


def figures(**facts: Any) -> FlowFigures:
    usual = {"offset_lag": 7, "time_lag_ms": 3_000, "as_of": NOW, "taken_at": NOW}
    return FlowFigures(**{**usual, **facts})


def result(**totals: Any) -> dict[str, Any]:
    usual = {"groups": 2, "places": 4, "proven": 4, "loss": 7, "loss_is": "counted"}
    return {"totals": {**usual, **totals}, "source_trouble": ""}


STEPS = [step("look", 0, 1.5), step("read", 1.5, 4), step("compare", 4, 9), step("clean", 9, 10)]


def test_a_drill_within_its_objectives_has_passed_and_says_its_numbers() -> None:
    wanted = Objectives(rpo_seconds=30, rpo_records=0, rto_seconds=60)
    verdict = judge(wanted, GOOD)
    assert verdict.passed
    assert (verdict.breaches, verdict.faults, verdict.remarks) == ((), (), ())
    assert "Verified: 4 of 4 group-partitions of 2 groups." in verdict.sentence
    assert "0 records would be lost (objective 0)." in verdict.sentence
    assert "after 4.2 s (objective 1 min)." in verdict.sentence


@pytest.mark.parametrize(
    ("wanted", "facts", "objective", "by", "words"),
    [
        ({"rpo_seconds": 30}, {"rpo_ms": 42_000}, "rpo_seconds", 12_000, "missed by 12 s"),
        ({"rpo_records": 5}, {"loss": 1_005}, "rpo_records", 1_000, "missed by 1,000"),
        ({"rto_seconds": 4}, {}, "rto_seconds", 200, "missed by 0.2 s"),
    ],
)
def test_a_missed_objective_fails_it_with_the_number_and_by_how_much(
    wanted: dict[str, int], facts: dict[str, int], objective: str, by: int, words: str
) -> None:
    verdict = judge(Objectives(**wanted), measured(**facts))
    (breach,) = verdict.breaches
    assert not verdict.passed
    assert (breach.objective, breach.by) == (objective, by)
    assert words in verdict.sentence
    # Just met is met.
    assert breach.found is not None
    just = {"rpo_ms": 30_000, "loss": 5, "rto_ms": 4_000}
    assert judge(Objectives(**wanted), measured(**just)).passed


@pytest.mark.parametrize("name", ["rpo_seconds", "rpo_records", "rto_seconds"])
def test_what_was_not_measured_counts_as_missed_with_the_reason(name: str) -> None:
    unknown = measured(
        loss=None, loss_why="the source is dead", rpo_ms=None, rpo_why="the source is dead",
        rto_ms=None, rto_why="the source is dead",
    )  # fmt: skip
    verdict = judge(Objectives(**{name: 10}), unknown)
    assert not verdict.passed
    assert verdict.breaches[0].by is None
    assert "could not be measured, so it counts as missed: the source is dead." in verdict.sentence


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"differs": 1, "proven": 3}, "1 group-partition would resume at a wrong record"),
        ({"unread": 2, "proven": 2}, "2 could not be read"),
        ({"proven": 0, "unproven": 4}, "None of 4 group-partitions could be verified"),
    ],
)
def test_places_that_are_wrong_or_unproven_fail_it_without_any_objective(
    facts: dict[str, int], words: str
) -> None:
    verdict = judge(Objectives(), measured(**facts))
    assert not verdict.passed
    assert words in verdict.sentence


def test_a_drill_without_objectives_is_not_called_passed() -> None:
    verdict = judge(Objectives(), measured(loss=10))
    assert verdict.outcome == "no_objectives"
    words = result_text(verdict.outcome, "verified")
    assert words == "offsets verified, no objectives set"
    assert result_text("passed", "partly_verified") == "passed"


def test_a_simulation_that_failed_fails_the_drill_with_its_own_words() -> None:
    verdict = judge(Objectives(rpo_seconds=1), Measurement(), trouble="backup refused.")
    assert (verdict.passed, verdict.sentence, verdict.breaches) == (False, "backup refused.", ())


def test_what_should_be_known_is_remarked_and_fails_nothing() -> None:
    verdict = judge(Objectives(), measured(unproven=1, proven=3, re_reads=5))
    assert (verdict.outcome, verdict.passed) == ("no_objectives", False)
    text = " ".join(verdict.remarks)
    assert "no objectives" in text
    assert "Not verified: 1 of 4 group-partitions." in text
    assert "5 records would be re-read" in text
    blocked = judge(Objectives(rto_seconds=9), measured(blockers=("orders waits.",)))
    assert (blocked.outcome, blocked.remarks) == (
        "passed",
        ("1 blocker would prevent a switchover: orders waits.",),
    )
    nothing = judge(Objectives(rto_seconds=9), Measurement(loss=0, rto_ms=1))
    assert "No consumer group has offsets" in " ".join(nothing.remarks)


def test_numbers_come_from_what_the_simulation_left_behind() -> None:
    found = measure(result(re_reads=2, first_record_ms=12, drain_ms=90), STEPS, figures())
    assert (found.loss, found.loss_is, found.re_reads) == (7, "counted", 2)
    assert (found.rpo_ms, found.rto_ms) == (3_000, 4_000)
    assert (found.first_record_ms, found.drain_ms) == (12, 90)
    # Nothing is lost, so nothing is old, whatever the flow said last.
    assert measure(result(loss=0), STEPS, figures()).rpo_ms == 0


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"as_of": NOW - timedelta(minutes=2)}, "2 min old when the drill began"),
        ({"time_lag_ms": None}, "not reported the age"),
        ({"as_of": None}, "not reported the age"),
    ],
)
def test_an_age_that_nobody_reported_lately_is_not_known(facts: Any, words: str) -> None:
    found = measure(result(), STEPS, figures(**facts))
    assert found.rpo_ms is None
    assert words in found.rpo_why


@pytest.mark.parametrize("how", ["last_known", "at_least", "unknown"])
def test_a_loss_by_old_figures_is_no_measurement(how: str) -> None:
    dead = {**result(loss=3, loss_is=how), "source_trouble": "primary refused the connection."}
    found = measure(dead, STEPS, figures())
    assert (found.loss, found.rpo_ms) == (None, None)
    assert found.loss_why == found.rpo_why == "primary refused the connection"


def test_a_simulation_that_ended_early_measured_nothing() -> None:
    found = measure(None, [step("look", 0, None)], None)
    assert (found.loss, found.rpo_ms, found.rto_ms, found.places) == (None, None, None, 0)
    assert "look" in found.rto_why
    assert found.loss_why


def test_objectives_out_of_range_are_refused_by_name() -> None:
    with pytest.raises(InvalidSettings) as refused:
        Objectives(rpo_seconds=-1, rpo_records=10**16, rto_seconds=0).check()
    assert set(refused.value.fields) == {"rpo_seconds", "rpo_records", "rto_seconds"}
    assert not Objectives().check().is_set
    assert Objectives(rpo_records=0).check().is_set

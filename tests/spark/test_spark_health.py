"""Spark's health: a pure function of executors, masters and age."""

from __future__ import annotations

import pytest

from spark_runner.spark.health import STALE_S, MasterState, Observation, assess

KNOWS = MasterState("a:7077", is_active=True, knows_application=True)
FORGOT = MasterState("a:7077", is_active=True)
DEAD = MasterState("a:7077", error="connection refused")
STANDBY = MasterState("b:7077", error="is standby")


def test_slots_and_an_active_master_that_knows_us_are_healthy() -> None:
    assert assess(Observation(4, (KNOWS,)), 0).is_healthy
    assert assess(Observation(4, (DEAD, KNOWS)), STALE_S).is_healthy
    # A local master, YARN and Kubernetes have no list of masters.
    assert assess(Observation(256), 0).is_healthy


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (Observation(0), "No Spark executor is alive"),
        (Observation(0, (KNOWS,)), "No Spark executor is alive"),
        (Observation(0, (DEAD,)), "(a:7077: connection refused), and no executor is alive"),
        (Observation(4, (DEAD, STANDBY)), "a:7077: connection refused; b:7077: is standby"),
        (Observation(4, (DEAD,)), "a lost executor is not replaced"),
        (Observation(4, (FORGOT,)), "does not know this application"),
        (Observation(0, (STANDBY, FORGOT)), "does not know this application"),
    ],
)
def test_what_is_missing_is_named(look: Observation, words: str) -> None:
    assert words in assess(look, 0).reason


def test_an_old_answer_proves_nothing_and_says_its_age() -> None:
    old = assess(Observation(4, (KNOWS,)), 31)
    assert not old.is_healthy
    assert "has not responded for 31 s" in old.reason


def test_a_master_has_forgotten_us_only_where_no_active_one_knows_us() -> None:
    assert Observation(4, (FORGOT,)).has_forgotten
    assert not Observation(4, (FORGOT, KNOWS)).has_forgotten
    assert not Observation(0, (DEAD, STANDBY)).has_forgotten
    assert not Observation(0).has_forgotten

"""A restarted demo is up although one of its flows is paused, failed or degraded."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.demo.startup_checks import SETTLED_S, PendingFlows, not_running

BEGAN = 1_000_000_000_000.0
BEFORE, AFTER = "2001-09-09T01:46:39Z", "2001-09-09T01:46:41Z"


def flow(observed: str, *, desired: str = "running", as_of: str | None = AFTER) -> dict[str, Any]:
    return {
        "id": 1,
        "name": "primary->backup",
        "desired_state": desired,
        "observed_state": observed,
        "reason": "A topic was recreated.",
        "as_of": as_of,
    }


def kept() -> PendingFlows:
    return PendingFlows(frozenset({1}), BEGAN)


@pytest.mark.parametrize("state", ["degraded", "backing_off", "failed"])
def test_a_kept_flow_in_lasting_trouble_is_not_waited_for(state: str) -> None:
    arrival = kept()
    assert arrival.waiting([flow(state)], 0.0) == [
        f"primary->backup is {state} (A topic was recreated.)"
    ]
    assert arrival.waiting([flow(state)], SETTLED_S - 0.1) != []
    assert arrival.waiting([flow(state)], SETTLED_S) == []
    assert not_running([flow(state)]) == [f"primary->backup is {state} (A topic was recreated.)"]


def test_trouble_that_changes_or_passes_is_waited_out() -> None:
    arrival = kept()
    arrival.waiting([flow("degraded")], 0.0)
    arrival.waiting([flow("starting")], 1.0)
    assert arrival.waiting([flow("degraded")], SETTLED_S) != []
    assert arrival.waiting([flow("backing_off")], SETTLED_S + 1) != []
    assert arrival.waiting([flow("backing_off")], SETTLED_S + 2) != []
    assert arrival.waiting([flow("running")], SETTLED_S + 3) == []


def test_what_the_last_demo_wrote_says_nothing_of_this_one() -> None:
    arrival = kept()
    for stale in (BEFORE, None):
        assert arrival.waiting([flow("running", as_of=stale)], 0.0) != []
        assert arrival.waiting([flow("degraded", as_of=stale)], 0.0) != []
        assert arrival.waiting([flow("degraded", as_of=stale)], 10 * SETTLED_S) != []


@pytest.mark.parametrize(
    ("desired", "observed"),
    [
        ("paused", "paused"),
        ("stopped", "stopped"),
        ("stopped", "failed_over"),
        ("paused", "running"),
    ],
)
def test_a_flow_that_shall_not_run_is_left_where_it_is(desired: str, observed: str) -> None:
    rows = [flow(observed, desired=desired, as_of=None)]
    assert kept().waiting(rows, 0.0) == []
    assert not_running(rows) != []


@pytest.mark.parametrize("state", ["degraded", "backing_off", "failed", "starting"])
def test_a_new_flow_must_run(state: str) -> None:
    arrival = PendingFlows(frozenset(), BEGAN)
    assert arrival.waiting([flow(state)], 0.0) != []
    assert arrival.waiting([flow(state)], 10 * SETTLED_S) != []
    assert arrival.waiting([flow("running")], 0.0) == []
    assert not_running([flow("running")]) == []


def test_a_flow_that_does_not_start_is_still_a_failure() -> None:
    arrival = kept()
    assert arrival.waiting([flow("starting")], 0.0) != []
    assert arrival.waiting([flow("starting")], 10 * SETTLED_S) != []

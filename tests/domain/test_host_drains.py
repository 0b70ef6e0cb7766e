"""Draining a host: which runner is handed over to whom, and when."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.runners import host_drains, host_leases
from mirrors.domain.runners.host_drains import ENDS_S, STATES, handovers
from mirrors.domain.runners.host_leases import LEASE_S, HostLease, LeasedRunner

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
NAMES = ("a", "b", "c")


def host(name: str, *, age: float = 1, drained_for: float | None = None) -> HostLease:
    since = None if drained_for is None else NOW - timedelta(seconds=drained_for)
    return HostLease(
        name=name,
        renewed_at=NOW - timedelta(seconds=age),
        held_since=NOW - timedelta(hours=1),
        draining_since=since,
        draining_by="" if since is None else "ann",
    )


def runner(name: str, at: str = "a", **facts: Any) -> LeasedRunner:
    return LeasedRunner(name=name, host=at, **{"others": ("*",), "is_leased": True, **facts})


def handed_over(name: str, ago: float, **facts: Any) -> LeasedRunner:
    moved = {"moved_from": "a", "moved_at": NOW - timedelta(seconds=ago)}
    return runner(name, "b", **{"has_started": False, **moved, **facts})


def seen(hosts: list[HostLease], runners: list[LeasedRunner]) -> list[tuple[str, str, str]]:
    found = handovers(hosts=hosts, runners=runners, now=NOW)
    assert all(one.reason for one in found)
    return [(one.runner, one.state, one.to) for one in found]


DRAINED = [host("a", drained_for=60), host("b")]


def test_the_first_moves_and_the_others_wait_for_it() -> None:
    assert seen(DRAINED, [runner("r2"), runner("r1"), runner("r3")]) == [
        ("r1", "moves", "b"), ("r2", "waits", ""), ("r3", "waits", ""),
    ]  # fmt: skip


def test_the_next_one_waits_until_the_one_before_has_started() -> None:
    rows = [handed_over("r1", 20), runner("r2")]
    assert seen(DRAINED, rows) == [("r1", "starts", "b"), ("r2", "waits", "")]
    rows[0] = dataclasses.replace(rows[0], has_started=True)
    assert seen(DRAINED, rows) == [("r2", "moves", "b")]
    # The old process may still end.
    rows[0] = dataclasses.replace(rows[0], moved_at=NOW - timedelta(seconds=ENDS_S - 1))
    assert seen(DRAINED, rows) == [("r1", "starts", "b"), ("r2", "waits", "")]
    # It came from there before the drain, and does not start now.
    assert seen(DRAINED, [handed_over("r1", 600), runner("r2")]) == [("r2", "moves", "b")]


def test_runners_that_nothing_needs_move_at_once_and_hold_up_none() -> None:
    rows = [runner("r1", is_needed=False), runner("r2", is_needed=False), runner("r3")]
    assert [state for _, state, _ in seen(DRAINED, rows)] == ["moves"] * 3
    rows = [handed_over("r0", 5), runner("r1", is_needed=False)]
    assert seen(DRAINED, rows)[1] == ("r1", "moves", "b")


@pytest.mark.parametrize(("others", "hosts", "reason"), [
    ((), DRAINED, "its list of other hosts is empty"),
    (("a",), DRAINED, "none of its other hosts (a) renews a lease and takes runners"),
    (("b",), [DRAINED[0], host("b", age=LEASE_S + 1)], "none of its other hosts (b)"),
    (("b",), [DRAINED[0], host("b", drained_for=1)], "none of its other hosts (b)"),
])  # fmt: skip
def test_a_runner_that_no_host_may_take_over_stays_and_says_why(
    others: tuple[str, ...], hosts: list[HostLease], reason: str
) -> None:
    found = handovers(hosts=hosts, runners=[runner("r1", others=others)], now=NOW)
    assert [(one.state, one.to) for one in found] == [("stays", "")]
    assert reason in found[0].reason


def test_a_person_s_move_goes_first() -> None:
    rows = [runner("r1", wanted="c", wanted_by="bob"), runner("r2", is_needed=False)]
    assert seen([*DRAINED, host("c")], rows)[0] == ("r1", "waits", "c")


def test_a_host_whose_lease_has_ended_is_taken_over_as_after_every_failure() -> None:
    hosts = [host("a", age=LEASE_S + 1, drained_for=60), host("b")]
    assert seen(hosts, [runner("r1")]) == [("r1", "waits", "")]
    (move,) = host_leases.moves(hosts=hosts, runners=[runner("r1")], now=NOW)
    assert move.to == "b"


@pytest.mark.parametrize(("facts", "reason"), [
    ({"others": ()}, "its list of other hosts is empty"),
    ({"is_leased": False}, "has not confirmed that the runner obeys its lease"),
    ({"is_needed": False}, "No flow of it should run"),
    ({"others": ("c",)}, "start a worker on one of them"),
])  # fmt: skip
def test_what_nothing_takes_over_from_a_failed_host_stays_on_it(
    facts: dict[str, Any], reason: str
) -> None:
    hosts = [host("a", age=7200, drained_for=8000), host("b")]
    (found,) = handovers(hosts=hosts, runners=[runner("r1", **facts)], now=NOW)
    assert (found.state, found.to) == ("stays", "")
    assert found.reason.startswith("a last renewed its lease 2 h ago. ")
    assert reason in found.reason
    assert host_leases.moves(hosts=hosts, runners=[runner("r1", **facts)], now=NOW) == []


def test_a_preview_says_what_a_drain_would_do() -> None:
    found = host_drains.preview(
        hosts=[host("a"), host("b")],
        runners=[runner("r1"), runner("r2", others=()), runner("r3", "b")],
        name="a",
        now=NOW,
    )
    assert [(one.runner, one.state, one.to) for one in found] == [
        ("r1", "moves", "b"), ("r2", "stays", ""),
    ]  # fmt: skip


def test_a_drained_host_takes_over_nothing_and_gets_nothing() -> None:
    hosts = [host("a", drained_for=60), host("b", age=LEASE_S + 1)]
    lost = runner("r1", "b")
    assert host_leases.moves(hosts=hosts, runners=[lost], now=NOW) == []
    assert host_leases.why_not_moved(lost, hosts, NOW) == (
        "a accepts no runner, since it is drained: end the drain."
    )
    wanted = dataclasses.replace(runner("r2", "b"), wanted="a", wanted_by="bob")
    assert host_leases.moves(hosts=[hosts[0], host("b")], runners=[wanted], now=NOW) == []
    assert host_leases.why_not_movable(wanted, hosts, "a", NOW) == (
        "ann drains a, so it accepts no runner. End the drain, or name another host."
    )


RUNNERS = st.lists(
    st.builds(
        LeasedRunner,
        name=st.sampled_from([f"r{number}" for number in range(8)]),
        host=st.sampled_from(NAMES),
        others=st.sampled_from([(), ("*",), ("a", "b"), ("c",)]),
        is_leased=st.booleans(),
        is_needed=st.booleans(),
        has_started=st.booleans(),
        moved_from=st.sampled_from(("", *NAMES)),
        moved_at=st.sampled_from([None, NOW - timedelta(seconds=5), NOW - timedelta(hours=2)]),
    ),
    max_size=8,
    unique_by=lambda row: row.name,
)
HOSTS = st.tuples(
    *(
        st.builds(
            lambda age, drained, name=name: host(name, age=age, drained_for=drained),
            st.sampled_from([1, LEASE_S + 5]),
            st.sampled_from([None, 60]),
        )
        for name in NAMES
    )
)


@given(HOSTS, RUNNERS)
def test_laws_of_a_drain(hosts: tuple[HostLease, ...], runners: list[LeasedRunner]) -> None:
    found = handovers(hosts=hosts, runners=runners, now=NOW)
    known, rows = {one.name: one for one in hosts}, {one.name: one for one in runners}
    assert {one.state for one in found} <= set(STATES)
    for one in host_drains.moves(hosts=hosts, runners=runners, now=NOW):
        assert one.before != one.to
        assert known[one.to].is_held(NOW)
        assert known[one.to].draining_since is None
        assert rows[one.runner].allows(one.to)
        assert known[one.before].draining_since is not None
    for name in NAMES:
        mine = [one for one in found if one.host == name and rows[one.runner].is_needed]
        # At most one set of flows pauses.
        assert sum(one.state in ("moves", "starts") for one in mine) <= 1 or all(
            one.state == "starts" for one in mine if one.state in ("moves", "starts")
        )

"""Leases of hosts: nothing moves early, one host moves each runner, and nothing moves back."""

from __future__ import annotations

import dataclasses
import random
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.runners.host_leases import (
    ANY_HOST,
    LEASE_S,
    STOP_BEFORE_END_S,
    HostLease,
    Lease,
    LeasedRunner,
    hosts_of,
    moves,
    why_not_movable,
    why_not_moved,
)

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
NAMES = ("a", "b", "c", "d")


def host(name: str, *, age: float = 1, held: float = 600) -> HostLease:
    renewed = NOW - timedelta(seconds=age)
    return HostLease(name=name, renewed_at=renewed, held_since=NOW - timedelta(seconds=held))


def runner(name: str = "r", at: str = "a", others: str = ANY_HOST, **facts: bool) -> LeasedRunner:
    return LeasedRunner(
        name=name, host=at, others=hosts_of(others), **{"is_leased": True, **facts}
    )  # fmt: skip


ages = st.floats(0, 3 * LEASE_S)
some_hosts = st.lists(
    st.builds(host, st.sampled_from(NAMES), age=ages, held=st.floats(0, 100)),
    unique_by=lambda one: one.name,
)
some_runners = st.lists(
    st.builds(
        LeasedRunner,
        name=st.text("rst", min_size=1, max_size=3),
        host=st.sampled_from(NAMES),
        others=st.lists(st.sampled_from((*NAMES, ANY_HOST)), unique=True).map(tuple),
        is_leased=st.booleans(),
        is_needed=st.booleans(),
    ),
    unique_by=lambda one: one.name,
)


@given(some_hosts, some_runners)
def test_a_runner_moves_only_when_the_lease_has_ended_and_only_to_a_host_that_may(
    hosts: list[HostLease], runners: list[LeasedRunner]
) -> None:
    known, rows = {one.name: one for one in hosts}, {one.name: one for one in runners}
    found = moves(hosts=hosts, runners=runners, now=NOW)
    assert len({move.runner for move in found}) == len(found)
    for move in found:
        row = rows[move.runner]
        assert not known[move.before].is_held(NOW)
        assert row.is_leased
        assert row.is_needed
        assert row.allows(move.to)
        assert known[move.to].may_take_over(NOW)
        assert move.before in move.reason


@given(some_hosts, some_runners)
def test_every_runner_that_can_move_moves(
    hosts: list[HostLease], runners: list[LeasedRunner]
) -> None:
    known = {one.name: one for one in hosts}
    moved = {move.runner for move in moves(hosts=hosts, runners=runners, now=NOW)}
    for row in runners:
        last = known.get(row.host)
        able = [one for one in hosts if one.may_take_over(NOW) and row.allows(one.name)]
        due = last is not None and not last.is_held(NOW) and row.is_leased and row.is_needed
        assert (row.name in moved) == (due and bool(able))


@given(some_hosts, some_runners, st.randoms())
def test_every_host_computes_the_same_moves(
    hosts: list[HostLease], runners: list[LeasedRunner], dice: random.Random
) -> None:
    found = moves(hosts=hosts, runners=runners, now=NOW)
    dice.shuffle(hosts)
    dice.shuffle(runners)
    assert moves(hosts=hosts, runners=runners, now=NOW) == found


@given(some_hosts, some_runners)
def test_after_the_moves_nothing_moves_also_when_the_old_hosts_are_back(
    hosts: list[HostLease], runners: list[LeasedRunner]
) -> None:
    to = {move.runner: move.to for move in moves(hosts=hosts, runners=runners, now=NOW)}
    after = [dataclasses.replace(one, host=to.get(one.name, one.host)) for one in runners]
    assert moves(hosts=hosts, runners=after, now=NOW) == []
    back = [dataclasses.replace(one, renewed_at=NOW) for one in hosts]
    assert moves(hosts=back, runners=after, now=NOW) == []


def test_after_an_outage_of_the_database_the_first_host_back_takes_nothing_over() -> None:
    # Both were cut off for a minute. b renews first; a needs two more seconds.
    found = moves(hosts=[host("a", age=60), host("b", age=0, held=0)], runners=[runner()], now=NOW)
    assert found == []


def test_moved_runners_are_shared_out_among_the_hosts_that_are_left() -> None:
    hosts = [host("a", age=31), host("b"), host("c")]
    runners = [runner(f"r{number}") for number in range(4)]
    found = moves(hosts=hosts, runners=runners, now=NOW)
    assert sorted(move.to for move in found) == ["b", "b", "c", "c"]


def test_the_reason_names_the_host_and_the_seconds() -> None:
    [move] = moves(hosts=[host("a", age=33), host("b")], runners=[runner()], now=NOW)
    assert move.reason == (
        "a last renewed its lease 33 s ago; it lasts 30 s. b took the runner over."
    )


def test_why_nobody_takes_over() -> None:
    gone = host("a", age=60)
    assert "is empty" in why_not_moved(runner(others=""), [gone], NOW)
    assert "not confirmed" in why_not_moved(runner(is_leased=False), [gone], NOW)
    assert "start a worker" in why_not_moved(runner(others="c"), [gone, host("b")], NOW)
    new = host("b", held=3)
    assert "b takes over" in why_not_moved(runner(), [gone, new], NOW)
    assert "has not ended" in why_not_moved(runner(), [host("a")], NOW)


@given(st.floats(0, 1e6), st.floats(0, 100))
def test_a_leased_process_stops_before_any_host_may_take_over(start: float, passed: float) -> None:
    """The file counts from before the row was written, so the row's lease ends later."""
    lease = Lease(host="a", boot="1", written=start, ends=start + LEASE_S, leased=("r",))
    told = lease.why_stop("r", boot="1", started=0, now=start + passed)
    if passed >= LEASE_S - STOP_BEFORE_END_S + 0.001:
        assert "could not renew" in told
    elif passed < LEASE_S - STOP_BEFORE_END_S - 0.001:
        assert told == ""
    assert lease.why_stop("another", boot="1", started=0, now=start + passed) == ""


def test_a_process_of_a_runner_that_moved_away_stops() -> None:
    lease = Lease(host="a", boot="1", written=50, ends=80, elsewhere=("r",))
    assert "Another host" in lease.why_stop("r", boot="1", started=10, now=51)
    # It came back after the file was written.
    assert lease.why_stop("r", boot="1", started=60, now=61) == ""


def test_a_lease_of_an_earlier_start_of_the_machine_has_ended() -> None:
    lease = Lease(host="a", boot="1", written=50, ends=80, leased=("r",))
    assert "since the machine started" in lease.why_stop("r", boot="2", started=1, now=2)


def test_the_file_of_a_lease_is_read_as_it_was_written() -> None:
    lease = Lease(host="a", boot="1", written=5, ends=35, leased=("r",), elsewhere=("s",))
    assert Lease.from_json(lease.to_json()) == lease


def test_a_person_moves_a_runner_to_a_host_that_renews_its_lease() -> None:
    wanted = dataclasses.replace(runner(), wanted="b", wanted_by="ann")
    both = [host("a"), host("b", held=0)]
    (move,) = moves(hosts=both, runners=[wanted], now=NOW)
    assert (move.before, move.to, move.reason) == ("a", "b", "ann moved the runner from a to b.")
    # Also one that has no list of other hosts and no lease: its host tells the process to stop.
    alone = dataclasses.replace(wanted, others=(), is_leased=False)
    assert len(moves(hosts=both, runners=[alone], now=NOW)) == 1
    silent = [host("a", age=LEASE_S + 1), host("b")]
    assert len(moves(hosts=silent, runners=[wanted], now=NOW)) == 1
    assert moves(hosts=silent, runners=[alone], now=NOW) == []
    assert "nothing would end the process of r there" in why_not_movable(alone, silent, "b", NOW)
    ended = dataclasses.replace(alone, may_live=False)
    assert len(moves(hosts=silent, runners=[ended], now=NOW)) == 1
    # The wanted host is gone, and another one does not take its place while the request lasts.
    gone = [host("a"), host("b", age=LEASE_S + 1), host("c")]
    assert moves(hosts=gone, runners=[wanted], now=NOW) == []
    words = why_not_movable(wanted, gone, "b", NOW)
    assert words == "No worker on b renews a lease. Hosts that the runner can move to: c."
    assert "is on a already" in why_not_movable(wanted, gone, "a", NOW)

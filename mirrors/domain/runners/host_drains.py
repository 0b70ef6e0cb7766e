"""Draining a host: its runners are handed over in order, and it accepts no new ones.

- One runner at a time: the next one moves when the process of the one before has started. So at
  most the flows of one runner pause, and a new host on which nothing starts gets no second one.
- Only to hosts of the runner's list, as after a failure. A runner without a list stays.
- A host that is drained keeps its lease, and its worker ends the processes that moved.
- If its lease ends, its runners are taken over as after every failure. Those that are not are still
  on it, so it is not drained.
- A drain ends when a person ends it; nothing moves back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, get_args

from mirrors.domain.formatting import duration
from mirrors.domain.runners.host_leases import HostLease, LeasedRunner, Move, why_not_moved

# The old process of a runner that was handed over has ended by then: its host renews its lease, and
# its flows stop at a commit.
ENDS_S = 15.0
# - moves: another host takes it over now. waits: for the runner before it, or its host failed and
#   another one takes it over.
# - starts: it was handed over; the new process starts, and the old one ends.
# - stays: nothing can take it over.
State = Literal["moves", "waits", "starts", "stays"]
STATES: tuple[State, ...] = get_args(State)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Handover:
    """What becomes of one runner of a host that is drained. `to`: empty when it stays."""

    runner: str
    host: str
    to: str
    state: State
    reason: str


def handovers(
    *, hosts: Iterable[HostLease], runners: Iterable[LeasedRunner], now: datetime
) -> list[Handover]:
    """One entry for each runner that is on a drained host, or that was handed over and starts."""
    known = {host.name: host for host in hosts}
    ordered = sorted(runners, key=lambda runner: runner.name)
    load = dict.fromkeys(known, 0)
    for runner in ordered:
        if runner.is_needed and runner.host in load:
            load[runner.host] += 1
    found = []
    for host in sorted(known.values(), key=lambda host: host.name):
        if host.draining_since is None:
            continue
        if host.is_held(now):
            found += _of_host(host, known, ordered, load, now)
        else:
            found += _of_failed_host(host, known, ordered, now)
    return found


def preview(
    *, hosts: Iterable[HostLease], runners: Iterable[LeasedRunner], name: str, now: datetime
) -> list[Handover]:
    """What would become of each runner of this host if somebody drained it now."""
    drained = [
        dataclasses.replace(host, draining_since=now) if host.name == name else host
        for host in hosts
    ]
    found = handovers(hosts=drained, runners=runners, now=now)
    return [one for one in found if one.host == name]


def moves(
    *, hosts: Sequence[HostLease], runners: Sequence[LeasedRunner], now: datetime
) -> list[Move]:
    """The handovers that are due. Each host computes the same ones and makes those to itself."""
    known = {host.name: host for host in hosts}
    idle = {runner.name for runner in runners if not runner.is_needed}
    return [
        Move(
            runner=one.runner,
            before=one.host,
            to=one.to,
            reason=f"{known[one.host].draining_by} drains {one.host}. {one.to} took it over.",
            at_once=one.runner in idle,
        )
        for one in handovers(hosts=hosts, runners=runners, now=now)
        if one.state == "moves"
    ]


def _of_host(
    host: HostLease,
    known: dict[str, HostLease],
    runners: list[LeasedRunner],
    load: dict[str, int],
    now: datetime,
) -> list[Handover]:
    found, is_busy = [], False
    for runner in runners:
        if _starts(runner, host, now):
            is_busy = True
            reason = f"It was handed over to {runner.host}: its process starts there and ends here."
            found.append(_handover(runner, host, runner.host, "starts", reason))
    for runner in (runner for runner in runners if runner.host == host.name):
        able = [
            other.name for other in known.values()
            if other.is_held(now) and other.draining_since is None and runner.allows(other.name)
        ]  # fmt: skip
        if runner.wanted:
            reason = f"{runner.wanted_by} moves it to {runner.wanted}."
            found.append(_handover(runner, host, runner.wanted, "waits", reason))
        elif not able:
            found.append(_handover(runner, host, "", "stays", _why_it_stays(runner, host)))
        elif is_busy and runner.is_needed:
            reason = "It is handed over when the one before it has started on its new host."
            found.append(_handover(runner, host, "", "waits", reason))
        else:
            to = min(able, key=lambda name: (load[name], name))
            load[to] += 1
            is_busy = is_busy or runner.is_needed
            reason = f"{to} starts a process for it, and takes it over when that has started."
            found.append(_handover(runner, host, to, "moves", reason))
    return found


def _of_failed_host(
    host: HostLease, known: dict[str, HostLease], runners: list[LeasedRunner], now: datetime
) -> list[Handover]:
    age = duration((now - host.renewed_at) / timedelta(milliseconds=1))
    failed = f"{host.name} last renewed its lease {age} ago."
    found = []
    for runner in (runner for runner in runners if runner.host == host.name):
        able = runner.is_leased and any(
            runner.allows(other.name) and other.is_held(now) and other.draining_since is None
            for other in known.values()
        )
        if runner.wanted:
            reason = f"{failed} {runner.wanted_by} moves it to {runner.wanted}."
            found.append(_handover(runner, host, runner.wanted, "waits", reason))
        elif not runner.is_needed:
            reason = f"{failed} No flow of it should run, so no other host takes it over."
            found.append(_handover(runner, host, "", "stays", reason))
        else:
            reason = f"{failed} {why_not_moved(runner, list(known.values()), now)}"
            found.append(_handover(runner, host, "", "waits" if able else "stays", reason))
    return found


def _starts(runner: LeasedRunner, host: HostLease, now: datetime) -> bool:
    """Whether this drain has handed it over, and the new process has not started or the old one may
    still end."""
    return (
        runner.moved_from == host.name
        and runner.moved_at is not None
        and host.draining_since is not None
        and runner.moved_at >= host.draining_since
        and runner.is_needed
        and (not runner.has_started or now < runner.moved_at + timedelta(seconds=ENDS_S))
    )


def _why_it_stays(runner: LeasedRunner, host: HostLease) -> str:
    if not runner.others:
        return (
            f"It stays on {host.name}: its list of other hosts is empty. Name the hosts that may "
            "take it over, or move it."
        )
    return (
        f"It stays on {host.name}: none of its other hosts ({', '.join(runner.others)}) renews a "
        "lease and takes runners. Start a worker on one of them."
    )


def _handover(
    runner: LeasedRunner, host: HostLease, to: str, state: State, reason: str
) -> Handover:
    return Handover(runner=runner.name, host=host.name, to=to, state=state, reason=reason)

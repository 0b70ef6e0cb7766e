"""Leases of worker hosts: when a runner must stop, and which host takes it over.

- A host renews its lease in the database. If it cannot, its leased runners stop before the lease
  ends, by the host's own clock (`Lease`). No other host acts before the end, by the database's
  clock (`moves`). The brokers fence what both clocks miss.
- A move is final: a host that returns gets nothing back, so no flow goes back and forth.
- A person moves a runner the same way: the new host takes it over, and the old one, which renews
  its lease, tells its process to stop. The brokers fence what it still sends.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Self

LEASE_S = 30.0
RENEW_S = 3.0
# A leased runner begins to stop this long before its lease ends: its flows commit meanwhile.
STOP_BEFORE_END_S = 10.0
# In a runner's list of other hosts: every host that runs a worker.
ANY_HOST = "*"
# A move that a person requests, and that the new host does not begin meanwhile, is given up.
MOVE_WITHIN = timedelta(minutes=2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostLease:
    """The row of a host. `held_since`: since when it has renewed without an interruption.

    `draining_since`, `draining_by`: a person drains it, so it accepts no runner.
    """

    name: str
    renewed_at: datetime
    held_since: datetime
    draining_since: datetime | None = None
    draining_by: str = ""

    def is_held(self, now: datetime) -> bool:
        return now < self.renewed_at + timedelta(seconds=LEASE_S)

    def may_take_over(self, now: datetime) -> bool:
        """Whether it has renewed for a whole lease.

        After an outage of the database every other host has had the time to renew its own.
        """
        held = self.is_held(now) and now - self.held_since >= timedelta(seconds=LEASE_S)
        return held and self.draining_since is None

    def age_s(self, now: datetime) -> int:
        return max(0, int((now - self.renewed_at).total_seconds()))


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeasedRunner:
    """A runner and its host.

    - `others`: names of the hosts that may take it over, or ANY_HOST.
    - `is_leased`: its host has confirmed that the runner's process obeys the host's lease.
    - `is_needed`: a flow of it should run, or a job of it is open.
    - `may_live`: its process was not seen to end.
    - `wanted`, `wanted_by`: the host to which a person moves it, and who; empty without a request.
    - `has_started`: its process has started on its host.
    - `moved_from`, `moved_at`: the last time another host took it over.
    """

    name: str
    host: str
    others: tuple[str, ...] = ()
    is_leased: bool = False
    is_needed: bool = True
    may_live: bool = True
    wanted: str = ""
    wanted_by: str = ""
    has_started: bool = True
    moved_from: str = ""
    moved_at: datetime | None = None

    def allows(self, host: str) -> bool:
        return host != self.host and (ANY_HOST in self.others or host in self.others)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Move:
    """`at_once`: nothing copies meanwhile, since its host failed or no flow needs it."""

    runner: str
    before: str
    to: str
    reason: str
    at_once: bool = False


def hosts_of(text: str) -> tuple[str, ...]:
    """The names in a list separated by commas or spaces, in order, each once."""
    return tuple(dict.fromkeys(text.replace(",", " ").split()))


def moves(
    *, hosts: Iterable[HostLease], runners: Iterable[LeasedRunner], now: datetime
) -> list[Move]:
    """Every move that is due. Each host computes the same ones and makes those to itself.

    The new host is the one with the fewest needed runners among those that may, by name if equal.
    """
    known = {host.name: host for host in hosts}
    ordered = sorted(runners, key=lambda runner: runner.name)
    load = dict.fromkeys(known, 0)
    for runner in ordered:
        if runner.is_needed and runner.host in load:
            load[runner.host] += 1
    found = []
    for runner in ordered:
        if runner.wanted:
            if not why_not_movable(runner, known.values(), runner.wanted, now):
                reason = (
                    f"{runner.wanted_by} moved the runner from {runner.host} to {runner.wanted}."
                )
                last = known.get(runner.host)
                move = Move(
                    runner=runner.name,
                    before=runner.host,
                    to=runner.wanted,
                    reason=reason,
                    at_once=not runner.is_needed or last is None or not last.is_held(now),
                )
                found.append(move)
            continue
        last = known.get(runner.host)
        if last is None or last.is_held(now) or not (runner.is_leased and runner.is_needed):
            continue
        able = [
            host.name for host in known.values()
            if host.may_take_over(now) and runner.allows(host.name)
        ]  # fmt: skip
        if not able:
            continue
        to = min(able, key=lambda name: (load[name], name))
        load[to] += 1
        reason = (
            f"{runner.host} last renewed its lease {last.age_s(now)} s ago; it lasts "
            f"{LEASE_S:.0f} s. {to} took the runner over."
        )
        found.append(
            Move(runner=runner.name, before=runner.host, to=to, reason=reason, at_once=True)
        )
    return found


def why_not_movable(
    runner: LeasedRunner, hosts: Iterable[HostLease], to: str, now: datetime
) -> str:
    """Why a person cannot move the runner to that host, as a sentence; empty if they can."""
    known = {host.name: host for host in hosts}
    if to == runner.host:
        return f"The runner {runner.name} is on {to} already."
    if to not in known or not known[to].is_held(now):
        able = sorted(name for name, host in known.items() if host.is_held(now))
        others = ", ".join(name for name in able if name != runner.host) or "none"
        return f"No worker on {to} renews a lease. Hosts that the runner can move to: {others}."
    if (by := known[to].draining_by) and known[to].draining_since is not None:
        return f"{by} drains {to}, so it accepts no runner. End the drain, or name another host."
    is_served = runner.host in known and known[runner.host].is_held(now)
    if runner.may_live and not (is_served or runner.is_leased):
        return (
            f"No worker on {runner.host} renews a lease, so nothing would end the process of "
            f"{runner.name} there, which has no lease either. Start the worker, or end the process."
        )
    return ""


def why_not_moved(runner: LeasedRunner, hosts: Sequence[HostLease], now: datetime) -> str:
    """Why nobody takes over a runner whose host is not served, as a sentence."""
    if not runner.others:
        return "No other host may take it over: its list of other hosts is empty."
    if not runner.is_leased:
        return "Its host has not confirmed that the runner obeys its lease, so no host takes over."
    last = next((host for host in hosts if host.name == runner.host), None)
    if last is None or last.is_held(now):
        return "The lease of its host has not ended."
    held = [host for host in hosts if runner.allows(host.name) and host.is_held(now)]
    able = sorted(host.name for host in held if host.draining_since is None)
    if held and not able:
        names = " and ".join(sorted(host.name for host in held))
        return f"{names} accepts no runner, since it is drained: end the drain."
    if not able:
        return "None of its other hosts holds a lease: start a worker on one of them."
    return f"{' or '.join(able)} takes over after it has held its lease for {LEASE_S:.0f} s."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lease:
    """A host's lease as its runners read it: `host-lease.json` in the directory of all runners.

    Times are seconds of the host's boot clock, which no correction of the time changes and which
    counts while the machine sleeps. `boot` identifies the start of the kernel.
    """

    host: str
    boot: str
    written: float
    ends: float
    # Runners that must stop before `ends`; and runners that other hosts serve now.
    leased: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw: dict[str, Any] = json.loads(text)
        leased, elsewhere = raw.pop("leased"), raw.pop("elsewhere")
        return cls(leased=tuple(leased), elsewhere=tuple(elsewhere), **raw)

    def why_stop(self, runner: str, *, boot: str, started: float, now: float) -> str:
        """Why the process of this runner must stop now; empty while it may run.

        `started`: when the process began. A runner may have come back since the file was written.
        """
        if runner in self.elsewhere and self.written > started:
            return "Another host serves this runner now."
        if runner not in self.leased:
            return ""
        if boot != self.boot:
            return f"{self.host} has not renewed its lease since the machine started."
        if now >= self.ends - STOP_BEFORE_END_S:
            seconds = max(0.0, now - (self.ends - LEASE_S))
            return (
                f"{self.host} could not renew its lease in the database for {seconds:.0f} s, so "
                "another host may take the flows over; they stop at a commit."
            )
        return ""

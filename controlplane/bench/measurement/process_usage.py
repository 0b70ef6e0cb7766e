"""CPU time of process trees, ended processes included; memory; the machine.

An ended process is counted in one of two ways:

- Its parent waited for it: the parent's `cutime` includes all its CPU time, and that of children
  too short-lived for a sample.
- Nobody waited, or init adopted it: its last sample is added.

Nothing is counted twice: the last sample is added only as far as `cutime` of the nearest living
ancestor did not grow by it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")


@dataclasses.dataclass(frozen=True, slots=True)
class ProcessTimes:
    """One process at one moment; times in clock ticks, `waited` is that of children that ended."""

    pid: int
    parent: int
    start: int
    own: int
    waited: int

    @property
    def total(self) -> int:
        return self.own + self.waited


def scan(proc: Path = PROC) -> dict[int, ProcessTimes]:
    """All processes of the machine, by process id."""
    found = {}
    for entry in os.listdir(proc):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                seen = parse_stat((proc / entry / "stat").read_text(errors="replace"))
                found[seen.pid] = seen
    return found


def parse_stat(text: str) -> ProcessTimes:
    """A line of /proc/PID/stat; the command's name may hold spaces and brackets."""
    head, _, tail = text.rpartition(")")
    rest = tail.split()
    user, system, child_user, child_system = (int(rest[at]) for at in (11, 12, 13, 14))
    return ProcessTimes(
        pid=int(head.split(" ", 1)[0]),
        parent=int(rest[1]),
        start=int(rest[19]),
        own=user + system,
        waited=child_user + child_system,
    )


class ProcessTree:
    """The CPU time of root processes and of all their descendants, ended ones included."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = set(roots)
        self._last: dict[int, ProcessTimes] = {}
        self._ended_ticks = 0

    def update(self, table: dict[int, ProcessTimes]) -> float:
        """CPU seconds used until this sample; never less than in the sample before."""
        now = self._members(table)
        self._ended_ticks += self._unclaimed(now)
        self._last = now
        return (self._ended_ticks + sum(seen.total for seen in now.values())) / TICKS

    @property
    def pids(self) -> list[int]:
        return list(self._last)

    def _members(self, table: dict[int, ProcessTimes]) -> dict[int, ProcessTimes]:
        members: dict[int, ProcessTimes] = {}
        children: dict[int, list[ProcessTimes]] = {}
        for seen in table.values():
            children.setdefault(seen.parent, []).append(seen)
        # A descendant stays in the tree when init adopts it.
        known = [pid for pid, last in self._last.items() if _same(table.get(pid), last)]
        queue = [table[pid] for pid in {*self._roots, *known} if pid in table]
        while queue:
            seen = queue.pop()
            if seen.pid not in members:
                members[seen.pid] = seen
                queue.extend(children.get(seen.pid, ()))
        return members

    def _unclaimed(self, now: dict[int, ProcessTimes]) -> int:
        """CPU ticks of ended processes that no living ancestor's `waited` includes."""
        missing: dict[int, int] = {}
        for pid, last in self._last.items():
            if not _same(now.get(pid), last):
                ancestor = self._living_ancestor(last, now)
                missing[ancestor] = missing.get(ancestor, 0) + last.total
        unclaimed = 0
        for ancestor, used in missing.items():
            before, after = self._last.get(ancestor), now.get(ancestor)
            grown = after.waited - before.waited if before and after else 0
            unclaimed += max(0, used - grown)
        return unclaimed

    def _living_ancestor(self, last: ProcessTimes, now: dict[int, ProcessTimes]) -> int:
        """Process id of the nearest living ancestor, or 0; a chain of waits ends there."""
        parent = self._last.get(last.parent)
        while parent is not None and not _same(now.get(parent.pid), parent):
            parent = self._last.get(parent.parent)
        return parent.pid if parent is not None else 0


def _same(seen: ProcessTimes | None, last: ProcessTimes) -> bool:
    return seen is not None and seen.start == last.start


def memory_bytes(pids: Iterable[int], proc: Path = PROC) -> int:
    """Proportional memory (PSS) of these processes: pages that they share are counted once."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in (proc / str(pid) / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
                    break
    return total


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """All processors together, in seconds since boot: at work, and taken away by the host."""

    busy: float
    stolen: float


def machine(proc: Path = PROC) -> Machine:
    first = (proc / "stat").read_text().split("\n", 1)[0].split()
    # user nice system idle iowait irq softirq steal; guest time is within user time.
    user, nice, system, _, _, irq, softirq, steal = (int(word) for word in first[1:9])
    busy = user + nice + system + irq + softirq
    return Machine(busy / TICKS, steal / TICKS)

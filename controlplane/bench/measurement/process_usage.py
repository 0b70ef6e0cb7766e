"""What processes cost: CPU time of whole trees, also of those that are gone; memory; the machine.

A process that ended is seen in two ways. If its parent waited for it, the parent's `cutime` grew by
all it used, also by what it used since we last looked and by children too short-lived to be seen.
If nobody waited, or it was handed to init, only our last look at it is left. Both are counted, and
nothing twice: what a vanished child had used is added only as far as its parent did not take it.
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
class Seen:
    """One process at one moment; times in clock ticks, `waited` is that of children that ended."""

    pid: int
    parent: int
    start: int
    own: int
    waited: int

    @property
    def total(self) -> int:
        return self.own + self.waited


def scan(proc: Path = PROC) -> dict[int, Seen]:
    """Every process there is."""
    found = {}
    for entry in os.listdir(proc):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                seen = parse_stat((proc / entry / "stat").read_text(errors="replace"))
                found[seen.pid] = seen
    return found


def parse_stat(text: str) -> Seen:
    """A line of /proc/PID/stat; the command's name may hold spaces and brackets."""
    head, _, tail = text.rpartition(")")
    rest = tail.split()
    user, system, child_user, child_system = (int(rest[at]) for at in (11, 12, 13, 14))
    return Seen(
        pid=int(head.split(" ", 1)[0]),
        parent=int(rest[1]),
        start=int(rest[19]),
        own=user + system,
        waited=child_user + child_system,
    )


class ProcessTree:
    """The CPU time of some root processes and of all that they ever started."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = set(roots)
        self._last: dict[int, Seen] = {}
        self._gone = 0

    def look(self, table: dict[int, Seen]) -> float:
        """CPU seconds used so far, by this picture of the machine. Never less than before."""
        now = self._members(table)
        self._gone += self._unclaimed(now)
        self._last = now
        return (self._gone + sum(seen.total for seen in now.values())) / TICKS

    @property
    def pids(self) -> list[int]:
        return list(self._last)

    def _members(self, table: dict[int, Seen]) -> dict[int, Seen]:
        members: dict[int, Seen] = {}
        children: dict[int, list[Seen]] = {}
        for seen in table.values():
            children.setdefault(seen.parent, []).append(seen)
        # One that was ours stays ours when init inherits it.
        known = [pid for pid, last in self._last.items() if _same(table.get(pid), last)]
        queue = [table[pid] for pid in {*self._roots, *known} if pid in table]
        while queue:
            seen = queue.pop()
            if seen.pid not in members:
                members[seen.pid] = seen
                queue.extend(children.get(seen.pid, ()))
        return members

    def _unclaimed(self, now: dict[int, Seen]) -> int:
        """What vanished processes had used, as far as no parent's `waited` grew by it."""
        missing: dict[int, int] = {}
        for pid, last in self._last.items():
            if not _same(now.get(pid), last):
                heir = self._heir(last, now)
                missing[heir] = missing.get(heir, 0) + last.total
        unclaimed = 0
        for heir, used in missing.items():
            before, after = self._last.get(heir), now.get(heir)
            grown = after.waited - before.waited if before and after else 0
            unclaimed += max(0, used - grown)
        return unclaimed

    def _heir(self, last: Seen, now: dict[int, Seen]) -> int:
        """The nearest ancestor that still lives: what a chain of waits has carried is there."""
        parent = self._last.get(last.parent)
        while parent is not None and not _same(now.get(parent.pid), parent):
            parent = self._last.get(parent.parent)
        return parent.pid if parent is not None else 0


def _same(seen: Seen | None, last: Seen) -> bool:
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

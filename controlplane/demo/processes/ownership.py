"""Recognise and end the processes of one demo, however deep they are and whichever process started
them.

Two signs, because each misses some: a variable in the environment, which every fork and exec hands
on, also to what went into a session of its own (but a program that renames itself wipes it, as
Redis does); and a book of the process ids and start ticks of the direct children.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from pathlib import Path

import psutil

from mirrors import launcher

VARIABLE = "UNDERSTUDY_DEMO_MARK"
_PATIENCE = 12.0
_AGAIN = 0.2


@dataclasses.dataclass(frozen=True)
class Brand:
    """The mark in the environment, and the file that is the book."""

    mark: str
    book: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {VARIABLE: self.mark}

    def note(self, pid: int) -> None:
        """Write a direct child into the book."""
        tick = launcher.start_tick(pid)
        if self.book is not None and tick is not None:
            with self.book.open("a") as book:
                book.write(f"{pid} {tick}\n")

    def living(self) -> list[psutil.Process]:
        """Every process of the brand that still runs, but not this one."""
        pids = self._booked() | self._marked()
        found = []
        for pid in pids - {os.getpid()}:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def end(self) -> int:
        """Kill them all and return how many there were.

        Looks again until none is left: one may have started another while we looked.
        """
        ended: set[int] = set()
        until = time.monotonic() + _PATIENCE
        while (processes := self.living()) and time.monotonic() < until:
            for process in processes:
                ended.add(process.pid)
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(processes, timeout=_AGAIN)
        return len(ended)

    def _marked(self) -> set[int]:
        found = set()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(VARIABLE) == self.mark:
                    found.add(process.pid)
        return found

    def _booked(self) -> set[int]:
        found = set()
        with contextlib.suppress(OSError, ValueError):
            for line in self.book.read_text().splitlines() if self.book else ():
                pid, tick = map(int, line.split())
                if launcher.is_alive(pid, tick):
                    found.add(pid)
        return found


def resident_bytes(brand: Brand) -> int:
    """Proportional set sizes of this process and of the brand's; resident where there are none."""
    total = 0
    for process in [psutil.Process(), *brand.living()]:
        with contextlib.suppress(psutil.Error, OSError):
            full = process.memory_full_info()
            total += int(getattr(full, "pss", 0) or full.rss)
    return total

"""Finds and ends the processes of one demo, at any depth.

Two marks, because each misses some processes:

- an environment variable, which fork and exec pass on, also into another process session. A
  program that renames itself overwrites it, as Redis does.
- a file with the process ids and start ticks of the direct children.
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
_KILL_TIMEOUT_S = 12.0
_AGAIN = 0.2


@dataclasses.dataclass(frozen=True)
class ProcessMark:
    """The value of the environment variable, and the file of process ids."""

    mark: str
    pid_file: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {VARIABLE: self.mark}

    def note(self, pid: int) -> None:
        """Append a direct child to the file of process ids."""
        tick = launcher.start_tick(pid)
        if self.pid_file is not None and tick is not None:
            with self.pid_file.open("a") as book:
                book.write(f"{pid} {tick}\n")

    def running_processes(self) -> list[psutil.Process]:
        """All running processes with the mark, except this one."""
        pids = self._recorded() | self._marked()
        found = []
        for pid in pids - {os.getpid()}:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def end(self) -> int:
        """Kill all of them and return their number.

        Repeats until none is left: a process may start another one meanwhile.
        """
        ended: set[int] = set()
        until = time.monotonic() + _KILL_TIMEOUT_S
        while (processes := self.running_processes()) and time.monotonic() < until:
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

    def _recorded(self) -> set[int]:
        found = set()
        with contextlib.suppress(OSError, ValueError):
            for line in self.pid_file.read_text().splitlines() if self.pid_file else ():
                pid, tick = map(int, line.split())
                if launcher.is_alive(pid, tick):
                    found.add(pid)
        return found


def resident_bytes(process_mark: ProcessMark) -> int:
    """Sum of proportional set sizes of all processes of the demo; resident sizes without them."""
    total = 0
    for process in [psutil.Process(), *process_mark.running_processes()]:
        with contextlib.suppress(psutil.Error, OSError):
            full = process.memory_full_info()
            total += int(getattr(full, "pss", 0) or full.rss)
    return total

"""Processes that start before their runner moves here on request, so that its flows pause less.

While the old host copies on, the new one starts the runner's process. The runner moves when that
is ready. If nothing starts here, the runner stays where it is. After a failure of its host there is
nothing to wait for, so it moves at once.
"""

from __future__ import annotations

import logging
import subprocess
import threading
from pathlib import Path

from mirrors import launcher
from mirrors.models import Runner
from mirrors.services.runners import processes

log = logging.getLogger(__name__)

# A process that was not ready by then has died or hangs: another one is started.
_AGAIN_S = 120.0


class Preparations:
    """Used by the thread that holds the lease, which must not wait for a start."""

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}

    @property
    def names(self) -> frozenset[str]:
        """Runners whose processes may live here although another host serves them."""
        return frozenset(self._begun)

    def keep(self, names: set[str]) -> None:
        """Forget all others: they moved, or nobody asks for them any more."""
        self._begun = {name: at for name, at in self._begun.items() if name in names}

    def is_ready(self, root: Path, name: str) -> bool:
        """Whether its process has started here; if there is none, begin to start it."""
        status = launcher.read_runner(root / name)
        lives = status is not None and launcher.is_alive(status.pid, status.start_tick)
        if status is not None and lives and status.has_started:
            return True
        now, begun = launcher.boot_clock(), self._begun.get(name)
        if begun is None or (not lives and now - begun > _AGAIN_S):
            self._begun[name] = now
            runner = Runner.objects.get(name=name)
            thread = threading.Thread(target=_start, args=(runner,), daemon=True)
            thread.start()
        return False


def _start(runner: Runner) -> None:
    """Without the database, which belongs to the thread of the lease."""
    try:
        processes.launch(runner)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.error("runner %s could not be started here, so it stays: %s", runner.name, error)

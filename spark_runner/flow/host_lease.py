"""Stops the runner when its host's lease ends: another host may have taken its flows over.

A thread of its own, so that neither a starting Spark nor a hanging disk delays it. It reads the
host's clock and a file, never the database. A runner whose host has no lease file has no lease.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from mirrors import launcher
from mirrors.domain.runners.host_leases import STOP_BEFORE_END_S

log = logging.getLogger("spark_runner")

LOOK_S = 0.5


def _end_process() -> None:
    os._exit(launcher.EXIT_FAILED)


class LeaseWatch(threading.Thread):
    """Sets `stopping` when the runner must stop, and ends the process if it has not by the end."""

    def __init__(
        self,
        directory: Path,
        name: str,
        stopping: threading.Event,
        end: Callable[[], None] = _end_process,
    ) -> None:
        super().__init__(name="host-lease", daemon=True)
        self._root = directory.absolute().parent
        self._runner = name
        self._stopping = stopping
        self._end = end
        self._boot = launcher.boot_id()
        self._began = launcher.boot_clock()
        self._closed = threading.Event()
        # Why the runner stops; empty unless the lease is the reason.
        self.reason = ""

    def run(self) -> None:
        while not (self.reason or self._closed.wait(LOOK_S)):
            self.reason = self._why_stop()
        if self._closed.is_set():
            return
        log.warning("%s", self.reason)
        self._stopping.set()
        if not self._closed.wait(STOP_BEFORE_END_S):
            log.error("The flows did not stop before the lease ended; the process ends now.")
            self._end()

    def close(self) -> None:
        """The flows have stopped; the process ends by itself."""
        self._closed.set()

    def _why_stop(self) -> str:
        try:
            lease = launcher.read_lease(self._root)
        except OSError:
            log.exception("The lease of the host cannot be read")
            return ""
        if lease is None:
            return ""
        return lease.why_stop(
            self._runner, boot=self._boot, started=self._began, now=launcher.boot_clock()
        )

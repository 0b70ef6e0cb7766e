"""Ends all child processes when this process ends, also when it is killed."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from controlplane.demo.processes.ownership import ProcessMark


class Guard:
    """Children started with `environment`, and their children, end with the block or process."""

    def __init__(
        self, process_mark: ProcessMark | None = None, litter: Sequence[Path] = ()
    ) -> None:
        self.process_mark = process_mark or ProcessMark(secrets.token_hex(8))
        self._litter = [str(path) for path in litter]
        self._watcher: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return self.process_mark.environment

    def watch(self) -> None:
        """Start the reaper process, or restart it after it was killed."""
        if self._watcher is not None and self._watcher.poll() is None:
            return
        command = [
            sys.executable,
            "-m",
            "controlplane.demo.processes.reaper",
            self.process_mark.mark,
        ]
        self._watcher = subprocess.Popen(
            [*command, str(self.process_mark.pid_file or ""), *self._litter],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )

    def close(self) -> None:
        self.process_mark.end()
        if self._watcher is not None and self._watcher.stdin is not None:
            with contextlib.suppress(OSError):
                self._watcher.stdin.close()
            self._watcher.wait(30)

    def __enter__(self) -> Self:
        self.watch()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

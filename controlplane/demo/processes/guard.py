"""Ties processes to the life of this one: when it is gone, however it went, they are ended."""

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

from controlplane.demo.processes.ownership import Brand


class Guard:
    """Start children with `environment`; leaving the block, or dying, ends them and theirs."""

    def __init__(self, brand: Brand | None = None, litter: Sequence[Path] = ()) -> None:
        self.brand = brand or Brand(secrets.token_hex(8))
        self._litter = [str(path) for path in litter]
        self._watcher: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return self.brand.environment

    def watch(self) -> None:
        """Start the watcher, or start it again when somebody killed it."""
        if self._watcher is not None and self._watcher.poll() is None:
            return
        command = [sys.executable, "-m", "controlplane.demo.processes.reaper", self.brand.mark]
        self._watcher = subprocess.Popen(
            [*command, str(self.brand.book or ""), *self._litter],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )

    def close(self) -> None:
        self.brand.end()
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

"""The process that migrates and seeds, seen from the demo: two questions, each with an answer."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.demo.errors import DemoError

DEADLINE = 120.0


class Database:
    """Start it early: it migrates while the brokers start, and seeds when it knows their
    addresses."""

    def __init__(self, environment: Mapping[str, str], *, root: Path, log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "django", "demo", "--seed"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environment),
                cwd=root,
                start_new_session=True,
                text=True,
            )

    def migrated(self) -> None:
        self._answer()

    def seed(self, facts: dict[str, Any]) -> dict[str, Any]:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(json.dumps(facts) + "\n")
                self._process.stdin.flush()
        answer = self._answer()
        self.close()
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _answer(self) -> dict[str, Any]:
        # A database that never answers is ended, which ends the wait for its line.
        late = threading.Timer(DEADLINE, self._process.kill)
        late.start()
        try:
            line = self._process.stdout.readline() if self._process.stdout is not None else ""
        finally:
            late.cancel()
        try:
            facts: dict[str, Any] = json.loads(line)
        except ValueError:
            raise DemoError(
                f"The database could not be prepared. The reason is in {self._log}.",
                code="database_failed",
            ) from None
        if "error" in facts:
            raise DemoError(facts["error"], code="database_failed")
        return facts

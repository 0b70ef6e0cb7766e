"""The demo's directory (.demo): its lock, what it remembers between starts, what programs read."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

from controlplane.demo.errors import DemoError
from controlplane.demo.processes.ownership import ProcessMark

NEEDED_BYTES = 1_000_000_000
_STATE = "state.json"


class Workspace:
    """One directory, one demo at a time; all that a demo keeps is in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.created = False
        self._lock: int | None = None
        self._state: dict[str, Any] = {}
        self._secrets = threading.Lock()

    def path(self, name: str) -> Path:
        return self.directory / name

    @property
    def logs(self) -> Path:
        return self.path("logs")

    @property
    def process_mark(self) -> ProcessMark:
        """The mark of the processes of this directory's latest demo."""
        return ProcessMark(self._state.get("mark") or "none", self.path("children"))

    def enter(self) -> int:
        """Lock the directory; returns how many processes of a killed demo were ended."""
        self._create_directory()
        self._take_lock()
        self._state = self._read(_STATE)
        left = self.process_mark.end()
        self.path("children").unlink(missing_ok=True)
        self.path("demo.json").unlink(missing_ok=True)
        shutil.rmtree(self.path("tmp"), ignore_errors=True)
        for name in ("tmp", "logs"):
            self.path(name).mkdir(exist_ok=True)
        self.remember(mark=secrets.token_hex(8), pid=os.getpid(), url="")
        return left

    def leave(self) -> None:
        self.path("demo.json").unlink(missing_ok=True)
        shutil.rmtree(self.path("tmp"), ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def abandon(self) -> None:
        """Remove everything: the start was refused before there was anything to keep."""
        if self._lock is not None and self.created:
            shutil.rmtree(self.directory, ignore_errors=True)
        self.leave()

    def remember(self, **facts: Any) -> None:
        self._state.update(facts)
        self._write(_STATE, self._state)

    def load(self, name: str) -> Any:
        return self._state.get(name)

    def secret(self, name: str, length: int = 24) -> str:
        """A secret of this directory, created on first use and stored.

        The services start in threads of their own; all of them get the same secret.
        """
        with self._secrets:
            known = self._read("secrets.json")
            if name not in known:
                known[name] = secrets.token_urlsafe(length)
                self._write("secrets.json", known)
            return str(known[name])

    def known_secret(self, name: str) -> str:
        return str(self._read("secrets.json").get(name, ""))

    def keep_secret(self, name: str, value: str) -> None:
        with self._secrets:
            self._write("secrets.json", {**self._read("secrets.json"), name: value})

    def publish(self, facts: dict[str, Any]) -> None:
        """Write `demo.json`: addresses and credentials; only the owner may read it."""
        self._write("demo.json", facts)

    def clean(self) -> None:
        """Remove the directory, unless a demo runs in it."""
        if not self.directory.exists():
            return
        self._take_lock()
        self._state = self._read(_STATE)
        self.process_mark.end()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.leave()
        if self.directory.exists():
            raise DemoError(
                f"Not everything in {self.directory} could be removed; look who owns it."
            )

    def _create_directory(self) -> None:
        try:
            self.created = not self.directory.exists()
            _ensure_disk(self.directory)
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise DemoError(
                f"The demo cannot keep its files in {self.directory}: {error.strerror}. "
                "Choose another directory with --dir.",
                code="directory_unusable",
            ) from error

    def _take_lock(self) -> None:
        self._lock = os.open(self.path("demo.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = None
            other = self._read(_STATE)
            who = f"process {other.get('pid', '?')}"
            where = f" at {other['url']}" if other.get("url") else ""
            raise DemoError(
                f"A demo already runs in {self.directory} ({who}{where}): "
                "use that one, stop it with Ctrl-C, or give this one a directory with --dir.",
                code="already_running",
            ) from None

    def _read(self, name: str) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self.path(name).read_text())
            return found if isinstance(found, dict) else {}
        return {}

    def _write(self, name: str, facts: dict[str, Any]) -> None:
        """Whole and renamed; mkstemp makes it readable for the owner alone."""
        handle, temporary = tempfile.mkstemp(dir=self.directory, prefix=f".{name}.")
        with os.fdopen(handle, "w") as file:
            json.dump(facts, file, indent=1)
            file.write("\n")
        Path(temporary).replace(self.path(name))


def _ensure_disk(directory: Path) -> None:
    existing = next(parent for parent in (directory, *directory.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free < NEEDED_BYTES:
        raise DemoError(
            f"The disk under {directory} has {free // 1_000_000:,} MB free, and the demo needs "
            f"{NEEDED_BYTES // 1_000_000:,}. Free some, or choose another disk with --dir.",
            code="disk_full",
        )

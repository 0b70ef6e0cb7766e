"""Starts children again when they die, as an init system would, and stops them in order."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from controlplane.demo.errors import DemoError
from controlplane.demo.processes.exit_reasons import explain

CALM_AFTER = 30.0
LONGEST_WAIT = 15.0
_TICK = 0.25
_LOG_LIMIT = 20_000_000


class Supervised(Protocol):
    """What the supervisor needs of a child: a plain program, or a Kafka broker."""

    name: str
    process: subprocess.Popen[bytes] | None

    @property
    def alive(self) -> bool: ...
    @property
    def log(self) -> Path: ...
    def launch(self) -> None: ...
    def why(self) -> DemoError: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


class Child:
    """A program: its arguments, its whole environment, the file that takes what it prints."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        directory: Path,
        patience: float = 10.0,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.process: subprocess.Popen[bytes] | None = None
        self._environment = dict(environment)
        self._log = log
        self._directory = directory
        self._patience = patience

    @property
    def log(self) -> Path:
        return self._log

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._log.open("ab") as output:
                self.process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=self._environment,
                    cwd=self._directory,
                    start_new_session=True,  # Ctrl-C is the demo's to act on, in its order
                )
        except OSError as error:
            raise DemoError(f"{self.name} cannot be started: {error}.") from error

    def stop(self) -> None:
        if self.process is not None and self.alive:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(self._patience)
        self.kill()

    def kill(self) -> None:
        """The child and what it forked: gunicorn's and Celery's workers live in its session."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def why(self) -> DemoError:
        """The reason why it ended, from the end of its log."""
        said = ""
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace")[-8000:].splitlines()
            said = "\n".join([line for line in lines if line.strip()][-12:])
        return explain(said, name=self.name, log=self._log)


def wait_before(deaths: int) -> float:
    """Seconds until the next start, after `deaths` failures in a row."""
    return min(0.5 * 2.0 ** max(deaths - 1, 0), LONGEST_WAIT) if deaths else 0.0


@dataclasses.dataclass
class _ChildState:
    child: Supervised
    deaths: int = 0
    started_at: float = 0.0
    due_at: float | None = None


class Supervisor:
    """Restarts its children; `tick` checks them once, `start` checks until `stop`."""

    def __init__(
        self, say: Callable[[str], None], note: Callable[[int], None] = lambda _: None
    ) -> None:
        self._say = say
        self._note = note
        self._states: list[_ChildState] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    @property
    def children(self) -> list[Supervised]:
        with self._lock:
            return [state.child for state in self._states]

    def adopt(self, child: Supervised) -> None:
        self._note_start(child)
        with self._lock:
            self._states.append(_ChildState(child, started_at=time.monotonic()))

    def release(self, child: Supervised) -> None:
        """Supervise this child no longer; the caller stops it."""
        with self._lock:
            self._states = [state for state in self._states if state.child is not child]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End supervision; the children run until the caller stops them."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def tick(self, now: float) -> None:
        with self._lock:
            states = list(self._states)
        for state in states:
            if state.due_at is not None:
                if now >= state.due_at:
                    self._start_again(state, now)
            elif not state.child.alive:
                self._schedule_restart(state, now)

    def _schedule_restart(self, state: _ChildState, now: float) -> None:
        if now - state.started_at > CALM_AFTER:
            state.deaths = 0
        state.deaths += 1
        state.due_at = now + wait_before(state.deaths)
        # Its forked processes must not run beside its successor.
        state.child.kill()
        told = f"   {state.child.name} {_how_it_ended(state.child)}; it is restarted"
        why = state.child.why()
        if state.deaths > 1 or why.code == "disk_full":
            told += f" in {wait_before(state.deaths):.1f} s. {why.message}"
        self._say(told)

    def _start_again(self, state: _ChildState, now: float) -> None:
        state.due_at, state.started_at = None, now
        try:
            state.child.launch()
            self._note_start(state.child)
        except DemoError as error:
            state.deaths += 1
            state.due_at = now + wait_before(state.deaths)
            self._say(f"   {error.message}")

    def _note_start(self, child: Supervised) -> None:
        if child.process is not None:
            self._note(child.process.pid)

    def _watch(self) -> None:
        turn = 0
        while not self._ended.wait(_TICK):
            self.tick(time.monotonic())
            turn += 1
            if turn % 240 == 0:
                for child in self.children:
                    keep_short(child.log)


def keep_short(log: Path, limit: int = _LOG_LIMIT) -> None:
    """Shorten a log in place. Its writer appends, so it continues after what is kept."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > limit:
            with log.open("r+b") as file:
                file.seek(-limit // 10, os.SEEK_END)
                tail = file.read()
                file.seek(0)
                file.truncate()
                file.write(tail)


def _how_it_ended(child: Supervised) -> str:
    code = None if child.process is None else child.process.poll()
    if code is None:
        return "is gone"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}"

"""Sessions of the suite on one machine: a test marked `alone` runs while the other ones wait.

A plugin of pytest that `tests.side_by_side` loads. Who runs beside others shares the room; who
wants it alone has it alone. All pass the door one by one, so that nobody overtakes who waits.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

VARIABLE = "UNDERSTUDY_TEST_TURNS"
# Nobody is waited for longer than that, so that what one session leaves behind holds up no other.
LONGEST_S = 900.0
# A last try asks for the room, but the time limit of its test goes on.
AGAIN_S = 60.0
_PAUSE_S = 0.1


class Turns:
    """This session's place in the room, and how it changes."""

    def __init__(self, directory: Path) -> None:
        self._door, self._room = ((directory / name).open("w") for name in ("door", "room"))
        self.alone: bool | None = None
        self._in_vain = False

    def take(self, *, alone: bool, patience: float = LONGEST_S) -> None:
        """Wait for the place as long as patience lasts, and then go on without one."""
        if self.alone == alone or self._in_vain:
            return
        self.give_back()
        until = time.monotonic() + patience
        if _locked(self._door, fcntl.LOCK_EX, until):
            if _locked(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, until):
                self.alone = alone
            fcntl.flock(self._door, fcntl.LOCK_UN)
        self._in_vain = self.alone is None and patience == LONGEST_S

    def give_back(self) -> None:
        fcntl.flock(self._room, fcntl.LOCK_UN)
        self.alone = None


def _locked(file: IO[str], kind: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(_PAUSE_S)
        else:
            return True


def wants_it_alone(item: pytest.Item | None) -> bool:
    return item is not None and item.get_closest_marker("alone") is not None


def pytest_configure(config: pytest.Config) -> None:
    turns = Turns(Path(os.environ[VARIABLE]))
    config.pluginmanager.register(Hooks(turns), "turns")


class Hooks:
    """What this session does before and after each test."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    # Outside of pytest-timeout: to wait for one's turn is no part of the test.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[Any]:
        self._turns.take(alone=wants_it_alone(item))
        try:
            return (yield)
        finally:
            # Tests that follow each other alone need not wait for their turn again.
            if not (self._turns.alone and wants_it_alone(item) and wants_it_alone(nextitem)):
                self._turns.give_back()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if getattr(item, "execution_count", 1) > 2:
            # What failed twice beside others has its last try alone, for which all others wait.
            self._turns.take(alone=True, patience=AGAIN_S)

"""`make test`: the whole suite as two pytest sessions at the same time, each complete.

Most tests wait most of their time: for brokers, for Spark, for a page. Each session has its own
brokers, Redis, databases and ports, folders of its own and what it takes from a pool that both
share (tests/pool.py); tests that measure time are marked `alone` and run while the other session
waits (tests/exclusive.py). The output of the first session appears as it runs, the second one's
after it. Both must pass.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.exclusive import VARIABLE
from tests.pool import ROOT, shares

PYTEST = (sys.executable, "-m", "pytest", "-p", "tests.exclusive", "-p", "tests.pool")
_NOTHING_TO_RUN = 5
_PAUSE_S = 0.5
# For what two sessions' brokers write, with as much again to spare.
_ROOM = 8 << 30


def main(arguments: Sequence[str]) -> int:
    if any(os.path.exists(word.partition("::")[0]) for word in arguments):
        # Somebody names what to run: one session does.
        return subprocess.call([sys.executable, "-m", "pytest", *arguments], cwd=ROOT)
    first, second, pool = shares()
    sessions: list[subprocess.Popen[bytes]] = []
    with (
        tempfile.TemporaryDirectory(prefix="understudy-tests-", dir=_memory()) as directory,
        _signals_go_on_to(sessions),
    ):
        log = Path(directory, "second.log")
        sessions.append(_begin([*first, *pool, *arguments], directory, "one"))
        with log.open("wb") as output:
            renamed = _renamed(arguments)
            sessions.append(_begin([*second, *pool, *renamed], directory, "two", stdout=output))
        sessions[0].wait()
        sys.stdout.write("\nThe second session, which ran at the same time:\n\n")
        sys.stdout.flush()
        _follow(log, sessions[1])
    return verdict([session.returncode for session in sessions])


def _memory() -> str | None:
    """Where there is room: for each partition a broker waits until several files are on disk."""
    place = Path("/dev/shm")  # noqa: S108 - only as the parent of a directory of our own
    if not os.access(place, os.W_OK) or psutil.virtual_memory().available < 2 * _ROOM:
        return None
    return str(place) if shutil.disk_usage(place).free > _ROOM else None


def verdict(codes: Sequence[int]) -> int:
    """0 when all that ran passed; a session in which nothing was chosen says nothing."""
    ran = [code for code in codes if code != _NOTHING_TO_RUN] or [_NOTHING_TO_RUN]
    return next((code for code in ran if code), 0)


def _begin(
    arguments: Sequence[str], directory: str, name: str, **options: Any
) -> subprocess.Popen[bytes]:
    # By the second variable pytest-django tells the databases of sessions apart.
    environment = {**os.environ, VARIABLE: directory, "TOX_PARALLEL_ENV": name}
    # Hundreds of processes start: what one of them has compiled the others read.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.Popen(
        [*PYTEST, *arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        # Ctrl-C is ours to hand on, once to each.
        process_group=0,
        **options,
    )


def _renamed(arguments: Sequence[str]) -> list[str]:
    """The second session writes a report of its own beside the first one's."""
    found = []
    for word in arguments:
        name, _, value = word.partition("=")
        path = Path(value)
        if name in ("--junitxml", "--junit-xml"):
            word = f"{name}={path.with_name(f'{path.stem}-second{path.suffix}')}"
        found.append(word)
    return found


def _follow(log: Path, session: subprocess.Popen[bytes]) -> None:
    """Show what it has said so far and what it says until it ends."""
    with log.open("rb") as said:
        running = True
        while running:
            running = session.poll() is None
            shutil.copyfileobj(said, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            time.sleep(_PAUSE_S if running else 0)


@contextlib.contextmanager
def _signals_go_on_to(sessions: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """A signal to this process stops both like Ctrl-C: each one stops what it started."""

    def hand_on(_number: int, _frame: object) -> None:
        for session in sessions:
            if session.poll() is None:
                session.send_signal(signal.SIGINT)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, hand_on) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

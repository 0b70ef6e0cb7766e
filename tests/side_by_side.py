"""`make test`: the whole suite as four pytest sessions at the same time, each complete.

Most tests wait most of their time: for brokers, for Spark, for a page. Each session has its own
brokers, Redis, databases and ports, folders of its own and what it takes from a pool that all
share (tests/pool.py); tests that measure time are marked `alone` and run while the other sessions
wait (tests/exclusive.py). The output of the first session appears as it runs, that of the others
after it. All must pass.
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
# Of the sessions; a session's name also tells its databases from the others'.
NAMES = ("one", "two", "three", "four")
_NOTHING_TO_RUN = 5
_PAUSE_S = 0.5
_WORK = ("user", "nice", "system")
# For what the sessions' brokers write, with as much again to spare.
_ROOM = 8 << 30


def main(arguments: Sequence[str]) -> int:
    if any(os.path.exists(word.partition("::")[0]) for word in arguments):
        # Somebody names what to run: one session does.
        return subprocess.call([sys.executable, "-m", "pytest", *arguments], cwd=ROOT)
    own, pool = shares()
    sessions: list[subprocess.Popen[bytes]] = []
    with (
        tempfile.TemporaryDirectory(prefix="understudy-tests-", dir=_memory()) as directory,
        _signals_go_on_to(sessions),
    ):
        began, before = time.monotonic(), psutil.cpu_times()
        sessions.append(_begin([*own[0], *pool, *arguments], directory, NAMES[0]))
        logs = [Path(directory, f"{name}.log") for name in NAMES[1:]]
        for log, files in zip(logs, own[1:], strict=True):
            words = [*files, *pool, *_renamed(arguments, log.stem)]
            with log.open("wb") as output:
                sessions.append(_begin(words, directory, log.stem, stdout=output))
        sessions[0].wait()
        for log, session in zip(logs, sessions[1:], strict=True):
            sys.stdout.write(f"\nSession {log.stem}, which ran at the same time:\n\n")
            sys.stdout.flush()
            _follow(log, session)
        sys.stdout.write(f"\n{demand(before, psutil.cpu_times(), time.monotonic() - began)}\n")
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


def demand(before: Any, after: Any, seconds: float) -> str:
    """What the processors of this machine did meanwhile, from two of `psutil.cpu_times`."""
    worked = sum(getattr(after, kind) - getattr(before, kind) for kind in _WORK)
    return (
        f"All sessions took {seconds:.0f} s. Meanwhile the processors worked {worked:.0f} s "
        f"and had nothing to do for {after.idle - before.idle:.0f} s."
    )


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


def _renamed(arguments: Sequence[str], session: str) -> list[str]:
    """Further sessions write reports of their own beside the first one's."""
    found = []
    for word in arguments:
        name, _, value = word.partition("=")
        path = Path(value)
        if name in ("--junitxml", "--junit-xml"):
            word = f"{name}={path.with_name(f'{path.stem}-{session}{path.suffix}')}"
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
    """A signal to this process stops all like Ctrl-C: each one stops what it started."""

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

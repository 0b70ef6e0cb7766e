"""What each of four sessions runs: folders of its own, then files of a pool that all take from.

A plugin of pytest that `tests.side_by_side` loads. How long folders take beside each other depends
on the machine, so a session that is done with its own takes the next free file: all end
at about the same time.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.exclusive import VARIABLE

ROOT = Path(__file__).resolve().parents[1]
# Whatever is not named here is the second session's: all that starts a whole demo, so that there
# are never two at once.
FIRST, FOURTH = ("api", "domain", "mirrors"), ("groups", "monitoring", "schemas", "security")
# The third session's, from this file on; the fourth one has those before it.
SPARK, SPARK_FROM = "spark", "test_failback.py"
# In the order in which sessions take their files; the second one begins at the end. Each session
# reads all of these files, so folders of many quick tests are in one session alone.
POOL = ("wire", "kafka")
# Of these, the session that begins with some of them: most of their tests wait, while those of the
# other sessions keep the processors busy.
EARLY, EARLY_FILES = "three", 30
# Files of Spark's folder that start all they need. They come first: the longest ones.
LONGEST = (
    "spark/test_host_failover.py",
    "spark/test_standalone.py",
    "spark/test_user_functions.py",
    "spark/test_authentication.py",
    "spark/test_cluster_version.py",
)
# Files of these folders that need the database, whose tests come before all others, or the room.
FIRST_FILES = ("wire/test_foreign_records.py",)
SECOND_FILES = ("kafka/test_source_scan.py", "kafka/test_readings.py")


def shares() -> tuple[tuple[list[str], ...], list[str]]:
    """What each session runs, and what any of them does; each file is in exactly one."""
    own = [f"tests/{name}" for name in (*FIRST_FILES, *SECOND_FILES)]
    pool = [f"tests/{name}" for name in LONGEST]
    pool += [path for folder in POOL for path in _files(folder) if path not in own]
    first = [f"tests/{name}" for name in (*FIRST, *FIRST_FILES)]
    rest = {
        f"tests/{path.name}"
        for path in (ROOT / "tests").iterdir()
        if _has_tests(path) and path.name not in (*FIRST, *FOURTH, *POOL, SPARK)
    }
    second = sorted({*rest, *(f"tests/{name}" for name in SECOND_FILES)})
    spark = [path for path in _files(SPARK) if path not in pool]
    third = [path for path in spark if Path(path).name >= SPARK_FROM]
    fourth = [path for path in spark if path not in third]
    fourth += [f"tests/{name}" for name in FOURTH]
    return (first, second, third, fourth), pool


def _files(folder: str) -> list[str]:
    found = sorted((ROOT / "tests" / folder).rglob("test_*.py"))
    return [path.relative_to(ROOT).as_posix() for path in found]


def _has_tests(path: Path) -> bool:
    return any(path.glob("test_*.py")) if path.is_dir() else path.match("test_*.py")


# Files that use a broker of their own: the session that takes one takes all, as it starts once.
TOGETHER = (
    "wire/test_expiring_logins.py",
    "wire/test_fetch_sessions.py",
    "wire/test_flow_writer_outage.py",
    "wire/test_retention.py",
    "wire/test_write_permission.py",
)


class Pool:
    """Files that sessions take, each once, whichever asks first."""

    def __init__(self, directory: Path, files: Sequence[str]) -> None:
        self._taken = directory / "taken"
        self._taken.mkdir(exist_ok=True)
        self._files = {ROOT / name: at for at, name in enumerate(files)}
        together = [path for name in TOGETHER if (path := ROOT / "tests" / name) in self._files]
        for path in together[1:]:
            self._files[path] = self._files[together[0]]

    def __contains__(self, item: pytest.Item) -> bool:
        return item.path in self._files

    def take(self, number: int) -> bool:
        try:
            (self._taken / str(number)).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def order(
        self, items: Sequence[pytest.Item], *, backwards: bool, early: int = 0
    ) -> Iterator[pytest.Item]:
        """The session's own, then what it takes, file by file, as it comes to it.

        `early`: how many files of the pool, from its end, come before the session's own.
        """
        files: dict[int, list[pytest.Item]] = {}
        for item in items:
            if item in self:
                files.setdefault(self._files[item.path], []).append(item)
        numbers = sorted(files, reverse=backwards)
        yield from self._taken_of(files, sorted(files)[-early:] if early else ())
        yield from (item for item in items if item not in self)
        yield from self._taken_of(files, numbers)

    def _taken_of(
        self, files: Mapping[int, list[pytest.Item]], numbers: Sequence[int]
    ) -> Iterator[pytest.Item]:
        for number in numbers:
            if self.take(number):
                yield from files[number]


def pytest_configure(config: pytest.Config) -> None:
    pool = Pool(Path(os.environ[VARIABLE]), shares()[1])
    config.pluginmanager.register(Hooks(pool), "pool")


class Hooks:
    """In the place of pytest's own loop, which has to know all tests when it begins."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            # Not to be run, for a reason that pytest says.
            return None
        name = os.environ.get("TOX_PARALLEL_ENV")
        early = EARLY_FILES if name == EARLY else 0
        mine = self._pool.order(session.items, backwards=name == "two", early=early)
        for item, following in itertools.pairwise(itertools.chain(mine, [None])):
            assert item is not None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        return True

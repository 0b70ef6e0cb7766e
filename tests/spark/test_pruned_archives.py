"""Archives of deleted environments are removed; used, new and unfinished ones stay."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from spark_runner.spark.java import MAX_ARCHIVES, RECENT_S, mark_used, prune

NOW = 1_700_000_000.0
OLD = 10 * RECENT_S


def left(cache: Path, name: str, age: float) -> Path:
    path = cache / name
    path.write_text("classes")
    os.utime(path, (NOW - age, NOW - age))
    return path


def stem(number: int) -> str:
    return f"spark-4.3.0-{number:016x}"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return left(tmp_path, f"{stem(0)}.jsa", OLD)


def test_of_the_others_the_few_stay_that_were_used_last(tmp_path: Path, new: Path) -> None:
    others = [left(tmp_path, f"{stem(n)}.jsa", OLD + n) for n in range(1, MAX_ARCHIVES + 3)]
    for path in others:
        left(tmp_path, path.with_suffix(".lock").name, OLD)
    os.utime(others[-1], (NOW - OLD, NOW - OLD))
    prune(new, NOW)
    stay = {others[-1], *others[: MAX_ARCHIVES - 1]}
    assert {path for path in others if path.exists()} == stay
    assert {path.with_suffix(".jsa") for path in tmp_path.glob("*.lock")} == stay
    assert new.exists()


def test_what_was_half_written_goes_also_beside_one_that_stays(tmp_path: Path, new: Path) -> None:
    whole = left(tmp_path, f"{stem(1)}.jsa", OLD)
    halves = [left(tmp_path, f"{stem(n)}.{pid}", OLD) for n, pid in ((1, 77), (1, 78), (2, 79))]
    prune(new, NOW)
    assert not any(path.exists() for path in halves)
    assert whole.exists()


def test_who_just_used_one_or_makes_one_keeps_it(tmp_path: Path, new: Path) -> None:
    for number in range(1, MAX_ARCHIVES + 1):
        left(tmp_path, f"{stem(number)}.jsa", 0)
    used = left(tmp_path, f"{stem(20)}.jsa", RECENT_S / 2)
    being_made = left(tmp_path, f"{stem(21)}.4711", OLD)
    with being_made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prune(new, NOW)
    assert used.exists()
    assert being_made.exists()
    mark_used(being_made)
    assert being_made.stat().st_mtime > NOW - OLD


def test_of_another_kind_and_of_the_jars_nothing_is_touched(tmp_path: Path, new: Path) -> None:
    names = ("kafka-4.3.1-bfd9f60e9d8e5506.jsa", "kafka-4.3.1.lock", "spark-4.3.0.lock", "spark-x")
    others = [left(tmp_path, name, OLD) for name in names]
    prune(new, NOW)
    prune(tmp_path / "not-there" / new.name, NOW)
    assert all(path.exists() for path in others)

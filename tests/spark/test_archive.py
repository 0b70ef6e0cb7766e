"""Java's class archive: one runner at a time writes it, and a killed one leaves no remains."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_runner.spark.class_data_archive import make_archive
from spark_runner.spark.java import java_options, keep_archive, read_option
from tests.spark.local_session import class_data_archive


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Java that has no archive yet."""
    monkeypatch.setenv("UNDERSTUDY_CACHE_DIR", str(tmp_path / "cache"))
    found = shutil.which("java")
    assert found is not None
    return found


def promised(options: str) -> list[Path]:
    """The archive that a start with these options leaves at its end."""
    return [Path(word.partition("=")[2]) for word in options.split() if "ArchiveClasses" in word]


def test_of_several_runners_one_leaves_the_archive_and_the_next_ones_use_it(
    java: str, tmp_path: Path
) -> None:
    (fresh,) = promised(java_options(java, tmp_path))
    beside = java_options(java, tmp_path)
    assert promised(beside) == []
    assert "SharedArchiveFile" not in beside
    fresh.write_text("classes")
    keep_archive(java, ended_well=True)
    assert f"-XX:SharedArchiveFile={fresh.with_suffix('.jsa')}" in java_options(java, tmp_path)
    assert not fresh.exists()


def test_what_a_killed_runner_left_half_written_is_removed(java: str, tmp_path: Path) -> None:
    (fresh,) = promised(java_options(java, tmp_path))
    shutil.rmtree(fresh.parent)
    fresh.parent.mkdir()
    left = fresh.with_suffix(".1")
    left.write_text("half of the classes")
    assert promised(java_options(java, tmp_path)) == [fresh]
    assert not left.exists()


def test_a_cache_that_cannot_be_written_to_costs_nothing_but_time(
    java: str, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("no directory")
    options = java_options(java, tmp_path)
    assert promised(options) == []
    assert "SharedArchiveFile" not in options


def test_an_archive_made_beforehand_is_used_and_not_made_again(tmp_path: Path) -> None:
    archive = class_data_archive()
    assert archive is not None
    before = archive.stat().st_ino
    assert make_archive() == archive
    assert archive.stat().st_ino == before
    found = shutil.which("java")
    assert found is not None
    assert read_option(archive) in java_options(found, tmp_path).split()

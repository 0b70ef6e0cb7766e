"""Java's archive of a broker's classes: created once, whichever process starts first, and never a
reason to fail."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from controlplane.demo.errors import DemoError
from controlplane.demo.kafka import class_data_archive
from controlplane.demo.kafka.class_data_archive import archive_options


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the archive of this test lies; there is none yet."""
    path = tmp_path / "kafka-0.jsa"
    monkeypatch.setattr(class_data_archive, "archive_path", lambda: path)
    return path


def leave(path: Path) -> None:
    path.write_text("classes")


def never(_path: Path) -> None:
    raise AssertionError("there was one already")


def test_the_first_start_leaves_it_and_later_ones_use_it(path: Path) -> None:
    options = [f"-XX:SharedArchiveFile={path}", "-Xshare:auto"]
    assert archive_options(leave) == options
    assert archive_options(never) == options
    assert sorted(item.name for item in path.parent.iterdir()) == ["kafka-0.jsa", "kafka-0.lock"]


def test_of_two_starts_at_once_one_makes_it_and_the_other_goes_on_without(path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(fresh: Path) -> None:
        begun.set()
        assert go_on.wait(30)
        leave(fresh)

    first = threading.Thread(target=archive_options, args=(slowly,))
    first.start()
    assert begun.wait(30)
    assert archive_options(never) == []
    go_on.set()
    first.join(30)
    assert archive_options(never) != []


def test_what_could_not_be_made_is_not_tried_again_and_no_rest_of_it_stays(
    path: Path,
) -> None:
    left = path.with_suffix(".1")
    left.write_text("half of the classes")

    def fail(_fresh: Path) -> None:
        raise DemoError("Java died.")

    assert archive_options(fail) == []
    assert archive_options(never) == []
    assert not left.exists()


def test_a_cache_that_cannot_be_written_to_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_data_archive, "archive_path", lambda: tmp_path / "nowhere" / "a.jsa")
    assert archive_options(never) == []


def test_another_java_and_other_jars_have_another_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java, jars = tmp_path / "java", tmp_path / "jars"
    jars.mkdir()
    for file in (java, jars / "a.jar"):
        file.write_text("x")
        os.utime(file, (1, 1))
    monkeypatch.setattr(class_data_archive, "find_java", lambda: str(java))
    monkeypatch.setattr(class_data_archive, "kafka_jars", lambda: jars)
    found = {class_data_archive.archive_path()}
    for file in (java, jars / "a.jar"):
        os.utime(file, (2, 2))
        found.add(class_data_archive.archive_path())
    assert len(found) == 3
    assert {path.parent for path in found} == {tmp_path}

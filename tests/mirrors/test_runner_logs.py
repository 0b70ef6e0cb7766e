"""A runner's last lines come from its file into a row, once for each state of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrors.models import RunnerLog
from mirrors.services.runners import logs
from tests.pages import world

LINE = "2026-11-22 02:33:24,100 INFO spark_runner [MainThread]: "


def lines() -> list[str]:
    return [line.removeprefix(LINE) for line in RunnerLog.objects.get().lines]


@pytest.mark.django_db
def test_lines_are_taken_over_when_the_file_grew_and_read_on_after_it_turned(
    tmp_path: Path,
) -> None:
    runner, path = world.runner(), tmp_path / "runner.log"
    logs.store_log(runner=runner, directory=tmp_path)
    assert not RunnerLog.objects.exists()
    path.write_text(f"{LINE}one\n")
    logs.store_log(runner=runner, directory=tmp_path)
    assert lines() == ["one"]
    RunnerLog.objects.update(lines=["kept"])
    logs.store_log(runner=runner, directory=tmp_path)
    assert lines() == ["kept"]
    path.rename(tmp_path / "runner.log.1")
    path.write_text(f"{LINE}two\n")
    logs.store_log(runner=runner, directory=tmp_path)
    assert lines() == ["one", "two"]


@pytest.mark.django_db
def test_a_long_log_is_read_from_a_whole_line_on(tmp_path: Path) -> None:
    runner = world.runner()
    (tmp_path / "runner.log").write_text("".join(f"{LINE}{n:0900}\n" for n in range(300)))
    logs.store_log(runner=runner, directory=tmp_path)
    found = [int(line) for line in lines()]
    assert found == list(range(300 - len(found), 300))
    assert 50 < len(found) < 200

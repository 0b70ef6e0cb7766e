"""The last lines of a runner's log as a row: the web process may run on another host."""

from __future__ import annotations

import os
from pathlib import Path

from mirrors.domain.formatting import without_nul
from mirrors.domain.runners import log
from mirrors.launcher import LOG_FILE
from mirrors.models import Flow, Runner, RunnerLog
from mirrors.services.clock import moment

# More than 200 lines of usual length; the file itself has up to 2 MB.
_TAIL_BYTES = 64 << 10


def store_log(*, runner: Runner, directory: Path) -> None:
    """Store the file's last lines when it has grown; an unreadable log changes nothing.

    The worker on the runner's host calls it after each observation of the runner.
    """
    path = directory / LOG_FILE
    try:
        stat = path.stat()
        mark = f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns}"
        if RunnerLog.objects.filter(runner=runner, mark=mark).exists():
            return
        # After a log rotation the older lines are in the previous file.
        text = _tail(path.with_name(f"{LOG_FILE}.1"), _TAIL_BYTES - stat.st_size)
        text += _tail(path, _TAIL_BYTES)
    except OSError:
        return
    written = moment(stat.st_mtime_ns // 1_000_000)
    found = {"lines": log.last_lines(text), "mark": mark, "written_at": written}
    RunnerLog.objects.update_or_create(runner=runner, defaults=found)


def of_runner(*, runner: Runner) -> RunnerLog | None:
    return RunnerLog.objects.filter(runner=runner).first()


def of_flow(*, flow: Flow) -> RunnerLog | None:
    """The log of the flow's runner with the lines of this flow only; not to be saved."""
    found = RunnerLog.objects.filter(runner=flow.runner_id).first()
    if found is not None:
        found.lines = log.of_flow(found.lines, flow=flow.pk, name=flow.name)
    return found


def _tail(path: Path, most: int) -> str:
    """The end of a file without a partial line; empty for a missing file."""
    if most <= 0 or not path.exists():
        return ""
    with path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - most)
        file.seek(start)
        # A log that was truncated while its writer had it open begins with NUL bytes.
        text = without_nul(file.read(most).decode("utf-8", "replace"))
    return text.partition("\n")[2] if start else text

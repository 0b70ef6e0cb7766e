"""The last lines of a runner's log on a page: all, or those of one flow."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from mirrors.domain.access.rights import Right
from mirrors.domain.runners import log as runner_log
from mirrors.models import Flow, Runner, has_right
from mirrors.services.runners import logs


def log_of_runner(request: HttpRequest, runner: Runner) -> dict[str, Any]:
    log = logs.of_runner(runner=runner) if _may_read(request, runner) else None
    return _shown(log.lines if log else [], log, "Last lines of the log")


def log_of_flow(request: HttpRequest, flow: Flow) -> dict[str, Any]:
    log = logs.of_flow(flow=flow) if _may_read(request, flow) else None
    title = f"What the runner {flow.runner.name} logged of this flow"
    return _shown(log.lines if log else [], log, title)


def _may_read(request: HttpRequest, row: Flow | Runner) -> bool:
    return has_right(request.user, Right.OPERATE, row)


def _shown(lines: list[str], log: object, title: str) -> dict[str, Any]:
    return {
        "log": log,
        "log_entries": runner_log.entries(lines),
        "log_title": title,
        "most_lines": runner_log.MOST_LINES,
    }

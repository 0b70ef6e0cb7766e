"""The last lines of a runner's log on a page: all of them, or those of one flow."""

from __future__ import annotations

from typing import Any

from mirrors.domain import runner_log
from mirrors.models import Flow, Runner, RunnerLog
from mirrors.services import runner_logs


def log_of_runner(runner: Runner) -> dict[str, Any]:
    found = runner_logs.of_runner(runner=runner)
    return _shown(found, runner, "Its last words in the log")


def log_of_flow(flow: Flow) -> dict[str, Any]:
    found = runner_logs.of_flow(flow=flow)
    return _shown(found, flow.runner, f"What the runner {flow.runner.name} logged of this flow")


def _shown(log: RunnerLog | None, runner: Runner, title: str) -> dict[str, Any]:
    return {
        "log": log,
        "log_entries": runner_log.entries(log.lines) if log else [],
        "log_title": title,
        "runner": runner,
        "most_lines": runner_log.MOST_LINES,
    }

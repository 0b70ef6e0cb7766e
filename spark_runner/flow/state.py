"""The state of a flow that operators see, with its reason."""

from __future__ import annotations

import dataclasses

from mirrors.domain.runners.job_files import JobState
from spark_runner.flow.operations import Phase

_AFTER_COMMIT: dict[Phase, str] = {"paused": "paused.", "stopped": "stopped.", "failed": "failed."}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowFacts:
    """Facts that the state is derived from. `problems`: of operations and slices, then
    partitions."""

    phase: Phase
    next_phase: Phase
    reason: str
    problems: tuple[str, ...]
    is_copying: bool
    throttle_reason: str
    has_partitions: bool


def visible_state(facts: FlowFacts) -> tuple[JobState, str]:
    """The most severe state first: final states, then problems, then progress."""
    phase, problems = facts.phase, facts.problems
    if phase in ("failed", "stopped", "paused"):
        return phase, facts.reason
    if phase == "committing":
        after = _AFTER_COMMIT.get(facts.next_phase, "restarted.")
        return "running", f"Committing; then it is {after}"
    if problems:
        if len(problems) == 1:
            return "degraded", problems[0]
        return "degraded", f"{problems[0].removesuffix('.')} (and {len(problems) - 1} more)."
    if phase == "taking_over":
        return "starting", "Taking over the flow and planning."
    if not facts.is_copying:
        return "starting", "Starting the slices."
    if not facts.has_partitions:
        return "running", "No topic passes the filters yet."
    return "running", facts.throttle_reason

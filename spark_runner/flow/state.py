"""The state of a flow that people see, and the sentence beside it."""

from __future__ import annotations

import dataclasses

from mirrors.domain.runners.job_files import JobState
from spark_runner.flow.operations import Phase

_AFTER_REST: dict[Phase, str] = {"paused": "paused.", "stopped": "stopped.", "failed": "failed."}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Standing:
    """How things are. `troubles`: of errands and slices, then of partitions, in words."""

    phase: Phase
    then: Phase
    reason: str
    troubles: tuple[str, ...]
    is_under_way: bool
    held_back: str
    has_partitions: bool


def verdict(standing: Standing) -> tuple[JobState, str]:
    """The worst comes first: what stands, what is in trouble, what is on its way."""
    phase, troubles = standing.phase, standing.troubles
    if phase in ("failed", "stopped", "paused"):
        return phase, standing.reason
    if phase == "resting":
        return "running", "Committing; then it is " + _AFTER_REST.get(standing.then, "restarted.")
    if troubles:
        if len(troubles) == 1:
            return "degraded", troubles[0]
        return "degraded", f"{troubles[0].removesuffix('.')} (and {len(troubles) - 1} more)."
    if phase == "opening":
        return "starting", "Taking the flow over and planning."
    if not standing.is_under_way:
        return "starting", "Starting the slices."
    if not standing.has_partitions:
        return "running", "No topic passes the filters yet."
    return "running", standing.held_back

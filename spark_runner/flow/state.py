"""The phases of a flow in a runner, and the state that operators see."""

from __future__ import annotations

import dataclasses
from typing import Literal

from mirrors.domain.runners.job_files import JobState
from mirrors.domain.state_machine import State, StateMachine

Phase = Literal["taking_over", "copying", "committing", "paused", "failed", "stopped"]

# The phase at the start of a job is that which its spec wants.
PHASES = StateMachine(
    [
        State(
            name="taking_over",
            meaning="the runner fences earlier copiers and plans; nothing is copied",
            cause="a job starts, or a flow is resumed that was never planned",
            predecessors=frozenset({"committing", "paused"}),
        ),
        State(
            name="copying",
            meaning="every slice runs an epoch or waits for a retry",
            cause="the first plan is applied, or a planned flow is resumed",
            predecessors=frozenset({"taking_over", "committing", "paused"}),
        ),
        State(
            name="committing",
            meaning="every slice was ordered to commit and end",
            cause="a pause, an edit, a stop, the end of a bounded run, or a lost ownership",
            predecessors=frozenset({"taking_over", "copying", "paused", "failed", "stopped"}),
        ),
        State(
            name="paused",
            meaning="the plan is kept, nothing is copied",
            cause="all slices have committed after a pause",
            predecessors=frozenset({"committing"}),
            action="resume the flow",
        ),
        State(
            name="failed",
            meaning="nothing is copied; a new spec starts over",
            cause="the settings are invalid, no slot is free, another runner owns the flow, or an "
            "internal error occurred",
            predecessors=frozenset({"taking_over", "copying", "committing", "paused", "stopped"}),
            action="read the reason and correct its cause; the control plane retries with backoff",
        ),
        State(
            name="stopped",
            meaning="the flow's thread ends",
            cause="all slices have committed after a stop, or at the end of a bounded run",
            predecessors=frozenset({"committing"}),
            action="start the flow",
        ),
    ],
    initial=("taking_over", "paused"),
)

_AFTER_COMMIT: dict[Phase, str] = {"paused": "paused.", "stopped": "stopped.", "failed": "failed."}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowFacts:
    """Facts that the state is derived from.

    - `problems`: of operations and slices, then partitions.
    - `earlier_problems`: those of the job before a restart, until the first result after it.
    """

    phase: Phase
    next_phase: Phase
    reason: str
    problems: tuple[str, ...]
    is_copying: bool
    throttle_reason: str
    has_partitions: bool
    earlier_problems: tuple[str, ...] = ()


def visible_state(facts: FlowFacts) -> tuple[JobState, str]:
    """The most severe state first: final states, then problems, then progress."""
    phase, problems = facts.phase, facts.problems
    if phase in ("failed", "stopped", "paused"):
        return phase, facts.reason
    if phase == "committing":
        after = _AFTER_COMMIT.get(facts.next_phase, "restarted.")
        committing = f"Committing; then it is {after}"
        # A restart takes long while a cluster does not respond. That is no reason to hide it.
        known = (problems or facts.earlier_problems) if facts.next_phase == "taking_over" else ()
        return ("degraded", f"{_first(known)} {committing}") if known else ("running", committing)
    if problems:
        return "degraded", _first(problems)
    if phase == "taking_over":
        taking_over = "Taking over the flow and planning."
        if earlier := facts.earlier_problems:
            return "degraded", f"Before the restart: {_first(earlier)} {taking_over}"
        return "starting", taking_over
    if not facts.is_copying:
        return "starting", "Starting the slices."
    if not facts.has_partitions:
        return "running", "No topic passes the filters yet."
    return "running", facts.throttle_reason


def _first(problems: tuple[str, ...]) -> str:
    if len(problems) == 1:
        return problems[0]
    return f"{problems[0].removesuffix('.')} (and {len(problems) - 1} more)."

"""The next move of a run and the next state of a step: pure functions of the stored rows.

Invariants:
A. Steps are done in order. After a crash the run resumes at the first step that is not done.
B. An abort undoes the begun steps in reverse order, each once.
C. A run that fails after it changed something waits for a person.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mirrors.domain.failover.runbook.steps import Step

StepState = Literal["pending", "running", "waiting", "succeeded", "failed", "skipped"]
DONE: tuple[StepState, ...] = ("succeeded", "skipped")
AGAIN_MS = 2_000
# After this many failed attempts to undo a step, the run waits for a person.
UNDO_TRIES = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepFacts:
    """One step as its row says. `begun`: its action may have had an effect, if only in part."""

    name: str
    state: StepState = "pending"
    attempt: int = 0
    begun: bool = False
    due_at: int | None = None
    undone: bool = False
    undo_tries: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFacts:
    steps: Sequence[StepFacts]
    abort_asked: bool = False
    pause_asked: bool = False


@dataclasses.dataclass(frozen=True)
class ExecuteStep:
    step: str


@dataclasses.dataclass(frozen=True)
class UndoStep:
    step: str


@dataclasses.dataclass(frozen=True)
class AwaitPerson:
    """Wait for a person; `why` says for what."""

    why: Literal["pause", "person", "trouble"]
    step: str


@dataclasses.dataclass(frozen=True)
class EndRun:
    state: Literal["succeeded", "failed", "aborted"]
    step: str = ""


Action = ExecuteStep | UndoStep | AwaitPerson | EndRun


def next_action(run: RunFacts) -> Action:
    """Return the next move."""
    if run.abort_asked:
        return _next_undo(run)
    step = next((step for step in run.steps if step.state not in DONE), None)
    if step is None:
        return EndRun("succeeded")
    if step.state == "failed":
        touched = any(other.begun for other in run.steps)
        return AwaitPerson("trouble", step.name) if touched else EndRun("failed", step.name)
    if run.pause_asked:
        return AwaitPerson("pause", step.name)
    if step.state == "waiting":
        return AwaitPerson("person", step.name)
    return ExecuteStep(step.name)


def _next_undo(run: RunFacts) -> Action:
    for step in reversed(run.steps):
        if step.begun and not step.undone:
            tired = step.undo_tries >= UNDO_TRIES
            return AwaitPerson("trouble", step.name) if tired else UndoStep(step.name)
    return EndRun("aborted")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a check of a step found, with its sentence and its numbers.

    - not_yet: check again in `again_ms`.
    - person: somebody has to do or decide it.
    - failed: a retry may help if `again` is set.
    """

    what: Literal["done", "skipped", "not_yet", "person", "failed"]
    words: str
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    again: bool = False
    again_ms: int = 1_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """The new state of a step's row. `next_at` (epoch ms): when it is checked again."""

    state: StepState
    words: str
    next_at: int | None = None
    # Its act is done again from its beginning.
    restarts_action: bool = False


def judge(step: Step, facts: StepFacts, outcome: Outcome, *, now: int) -> Verdict:
    """Return the new state of a step. Its time limit counts from the step's beginning."""
    late = facts.due_at is not None and now >= facts.due_at
    if outcome.what == "done":
        return Verdict(state="succeeded", words=outcome.words)
    if outcome.what == "skipped":
        return Verdict(state="skipped", words=outcome.words)
    if outcome.what == "person":
        return Verdict(state="waiting", words=outcome.words)
    if outcome.what == "not_yet" and not late:
        return Verdict(state="running", words=outcome.words, next_at=now + outcome.again_ms)
    if outcome.what == "not_yet":
        late_words = f"Not done within {step.limit_s} s: {outcome.words}"
        return Verdict(state="failed", words=late_words)
    if outcome.again and facts.attempt < step.tries and not late:
        wait = AGAIN_MS * max(1, facts.attempt)
        return Verdict(
            state="running", words=outcome.words, next_at=now + wait, restarts_action=True
        )
    return Verdict(state="failed", words=outcome.words)

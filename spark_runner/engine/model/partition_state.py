"""States of a partition in the engine, and the transitions between them.

The declaration `STATES` is the only one: `docs/design/engine.md` shows it, and tests compare both
the page and random sequences of events with it. States are integers, since the hot path compares
them for each batch.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.ipc.messages import PartitionError

READING: Final = 0
RETRYING: Final = 1
STALLED: Final = 2
DRAINING: Final = 3
FAILING: Final = 4
STOPPED: Final = 5

_RECOVERED = "the target acknowledged everything that was retried"
_RESTART = "the slice restarts at its last commit"
_NOTHING_LEFT = "the source cannot be read on, and nothing is left to write"
_AT_ONCE = "a recreated topic, or a second error -1 for one batch"


class State(NamedTuple):
    """One state: what the engine does meanwhile, and the cause of each way into it."""

    number: int
    name: str
    meaning: str
    # Name of the state before -> cause of the transition.
    causes: dict[str, str]


STATES: Final = (
    State(
        READING,
        "READING",
        "read from the source and written to the target",
        {
            "RETRYING": f"{_RECOVERED}, or {_RESTART}",
            "STALLED": f"{_RECOVERED}, or {_RESTART}",
            "DRAINING": _RESTART,
            "FAILING": _RESTART,
            "STOPPED": "the error concerned an uncommitted position, and the slice restarts",
        },
    ),
    State(
        RETRYING,
        "RETRYING",
        "read; batches that the target did not acknowledge are sent again",
        {"READING": "a batch was not acknowledged, or the leader on the target is unknown"},
    ),
    State(
        STALLED,
        "STALLED",
        "not read; its receive buffers are free for others; stamped batches are sent again",
        {
            "RETRYING": "no batch was acknowledged for one second",
            "DRAINING": "no batch was acknowledged for one second; the rest is read again later",
        },
    ),
    State(
        DRAINING,
        "DRAINING",
        "not read; what was read before the stop is written",
        {
            "READING": "the source cannot be read on, or a batch cannot be replicated",
            "RETRYING": "the source cannot be read on, or a batch cannot be replicated",
            "STALLED": "the source cannot be read on",
        },
    ),
    State(
        FAILING,
        "FAILING",
        "stops once the requests in flight are answered; queued batches are dropped",
        {
            "READING": "the target rejected a batch permanently",
            "RETRYING": "the target rejected a batch permanently, or did not respond in time",
            "STALLED": "the target rejected a batch permanently, or did not respond in time",
            "DRAINING": "the target rejected a batch permanently, or did not respond in time",
        },
    ),
    State(
        STOPPED,
        "STOPPED",
        "neither read nor written; reported with its error; an operator decides",
        {
            "READING": f"{_NOTHING_LEFT}; a truncated target or lost positions; {_AT_ONCE}",
            "RETRYING": f"{_NOTHING_LEFT}; {_AT_ONCE}",
            "STALLED": _AT_ONCE,
            "DRAINING": f"everything before the stop is written; {_AT_ONCE}",
            "FAILING": "the requests in flight are answered",
        },
    ),
)


def _predecessors() -> list[int]:
    """For each state, the bits of the states before it; a state may follow itself."""
    numbers = {state.name: state.number for state in STATES}
    masks = [1 << state.number for state in STATES]
    for state in STATES:
        for name in state.causes:
            masks[state.number] |= 1 << numbers[name]
    return masks


_PREDECESSORS: Final = _predecessors()


class InvalidTransition(Exception):
    """A transition that `STATES` does not declare: a defect of the engine."""


class PartitionState:
    """The state, why the partition stops, and since when its batches are retried.

    Times are seconds of the monotonic clock, 0.0 for none. A retry timer may run in every state but
    READING: a draining or failing partition retries as well.
    """

    __slots__ = ("_error", "_retry_at", "_retry_since", "_state", "_stop_reason", "_suspect_offset")

    def __init__(self) -> None:
        self._state = READING
        # Why it drains or fails; it stops with this reason.
        self._stop_reason: StopReason | None = None
        self._error: PartitionError | None = None
        self._retry_since = 0.0
        self._retry_at = 0.0
        # First offset of the batch that a broker answered with error -1, else -1.
        self._suspect_offset = -1

    # -- what holds

    @property
    def state(self) -> int:
        return self._state

    @property
    def error(self) -> PartitionError | None:
        """The error of a stopped partition."""
        return self._error

    @property
    def is_stalled(self) -> bool:
        return self._state == STALLED

    @property
    def drains_for(self) -> StopReason | None:
        """Why a draining partition stops once everything is written."""
        return self._stop_reason if self._state == DRAINING else None

    @property
    def fails_for(self) -> StopReason | None:
        """Why a failing partition stops once nothing is in flight."""
        return self._stop_reason if self._state == FAILING else None

    @property
    def retry_since(self) -> float:
        """When the first batch was not acknowledged, or the last retry was."""
        return self._retry_since

    @property
    def retry_at(self) -> float:
        """Nothing is sent before this time."""
        return self._retry_at

    @property
    def suspect_offset(self) -> int:
        return self._suspect_offset

    # -- what happens

    def begin_retry(self, now: float) -> None:
        """A batch was not acknowledged, or its leader is unknown."""
        if not self._retry_since:
            self._retry_since = now
        if self._state == READING:
            self._move(RETRYING)

    def wait_until(self, moment: float) -> None:
        """Send nothing before this time."""
        self._retry_at = moment

    def retry_progressed(self, now: float) -> None:
        """A retried batch was acknowledged, others are not yet: the time counts from now."""
        self._retry_since = now

    def recover(self) -> None:
        """All retried batches were acknowledged."""
        self._retry_since = 0.0
        if self._state in (RETRYING, STALLED):
            self._move(READING)

    def stall(self) -> None:
        """Retries last long: the partition is not read meanwhile.

        The reason to drain is dropped, with the batches after it. It is found again after reading.
        """
        if self._state in (FAILING, STOPPED):
            return
        self._move(STALLED)
        self._stop_reason = None

    def drain(self, reason: StopReason) -> None:
        """Stop with this reason once everything that was read before is written."""
        if self._state in (FAILING, STOPPED):
            return
        self._move(DRAINING)
        self._stop_reason = reason

    def fail(self, reason: StopReason) -> None:
        """Stop with this reason once nothing is in flight."""
        if self._state == STOPPED:
            return
        self._move(FAILING)
        self._stop_reason = reason

    def stop(self, error: PartitionError) -> None:
        self._move(STOPPED)
        self._stop_reason = None
        self._error = error

    def suspect(self, offset: int) -> None:
        """A broker answered the batch at this offset with error -1."""
        self._suspect_offset = offset

    def resume_stopped(self) -> None:
        """The error concerned a position that was not committed."""
        self._error = None
        self._retry_since = self._retry_at = 0.0
        self._move(READING)

    def restart(self) -> None:
        """The slice restarts at its last commit; a stopped partition stays stopped."""
        self._stop_reason = None
        self._retry_since = self._retry_at = 0.0
        if self._state != STOPPED:
            self._move(READING)

    def _move(self, state: int) -> None:
        if not _PREDECESSORS[state] >> self._state & 1:
            raise InvalidTransition(f"{STATES[self._state].name} -> {STATES[state].name}")
        self._state = state

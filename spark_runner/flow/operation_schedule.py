"""When each operation of a flow is due: discovery, retries, copies of positions."""

from __future__ import annotations

from typing import Literal

from mirrors.domain.errors import KafkaRefused, UnderstudyError

Operation = Literal["open", "plan", "look", "ends", "positions", "owner", "remotes", "selected"]

COPY_POSITIONS_S = 5.0
ENDS_BUSY_S = 1.0
ENDS_IDLE_S = 5.0
# Interval of scans of remote partitions for foreign records.
REMOTES_S = 10.0
RETRY_FAULTED_S = (15.0, 30.0, 60.0, 120.0, 300.0)
# Short: a cluster that is reachable again is used within seconds.
RETRY_S = (1.0, 2.0, 4.0, 8.0)
# Longer: repeated attempts with a wrong password can lock an account.
RETRY_REFUSED_S = (5.0, 15.0, 30.0, 60.0)


class OperationSchedule:
    """All times are monotonic seconds, passed in."""

    def __init__(self, refresh_s: float | None) -> None:
        # Half the interval: a change must also be planned and taken up within the interval.
        self._refresh_s = None if refresh_s is None else max(0.5, refresh_s / 2)
        self._due: dict[Operation, float] = {
            "open": 0.0,
            "ends": 0.0,
            "positions": 0.0,
            "look": 0.0,
            "selected": 0.0,
        }
        self._failures = 0
        self._retries = 0
        self._retry_at: float | None = None
        self._retried_at = 0.0

    def is_due(self, operation: Operation, now: float) -> bool:
        return now >= self._due.get(operation, float("inf"))

    def request(self, operation: Operation) -> None:
        self._due[operation] = 0.0

    def request_unless_pending(self, operation: Operation) -> None:
        """Request the operation unless it is in progress or waits for a retry."""
        self._due.setdefault(operation, 0.0)

    def retry_soon(self, operation: Operation, now: float) -> None:
        """The result cannot be used: try again after a short pause."""
        self._due[operation] = now + RETRY_S[0]

    def mark_started(self, operation: Operation) -> None:
        """Not due again before its result."""
        self._due[operation] = float("inf")

    def mark_done(self, operation: Operation, now: float, *, is_busy: bool) -> None:
        # A request made meanwhile remains.
        if self._due.get(operation) == float("inf"):
            del self._due[operation]
        if operation in ("open", "plan", "look"):
            self._failures = 0
            self._due["look"] = float("inf") if self._refresh_s is None else now + self._refresh_s
        if operation == "ends":
            self._due["ends"] = now + (ENDS_BUSY_S if is_busy else ENDS_IDLE_S)
        if operation == "selected":
            self._due["selected"] = (
                float("inf") if self._refresh_s is None else now + self._refresh_s
            )
        if operation == "positions":
            self._due["positions"] = now + COPY_POSITIONS_S
        if operation == "remotes" or (operation == "open" and "remotes" not in self._due):
            self._due["remotes"] = now + REMOTES_S

    def mark_failed(self, operation: Operation, error: UnderstudyError, now: float) -> None:
        steps = RETRY_REFUSED_S if isinstance(error, KafkaRefused) else RETRY_S
        self._due[operation] = now + steps[min(self._failures, len(steps) - 1)]
        self._failures += 1

    def retry_faulted(self, now: float, *, any_faulted: bool) -> bool:
        """Whether to retry stopped partitions now, with backoff."""
        if not any_faulted:
            self._retry_at = None
            if now - self._retried_at > RETRY_FAULTED_S[-1]:
                # No fault for a long time: the next one starts with the shortest delay.
                self._retries = 0
            return False
        wait = RETRY_FAULTED_S[min(self._retries, len(RETRY_FAULTED_S) - 1)]
        if self._retry_at is None:
            self._retry_at = now + wait
        if now < self._retry_at:
            return False
        self._retries += 1
        self._retry_at, self._retried_at = None, now
        return True

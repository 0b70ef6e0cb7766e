"""Restart delays of failed flows and of runners that died."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

MINUTE_MS = 60_000
LONGEST_MS = 60 * MINUTE_MS
# A job that loses its runner this soon after its start counts; this many in a row restart at once.
SOON_MS = 30_000
FREE_LOSSES = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobRow:
    """One job of the flow as stored; open while `ended_at` is None."""

    id: int
    generation: int
    state: str
    started_at: int
    ended_at: int | None = None
    reason: str = ""


def restart_delay_ms(failures: int) -> int:
    """Return the delay from the last start to the next, after this many failures in a row.

    After n restarts it is n² + n minutes, at most an hour; the first restart is immediate.
    """
    restarts = max(0, failures - 1)
    return min((restarts * restarts + restarts) * MINUTE_MS, LONGEST_MS)


def failures_in_a_row(jobs: Sequence[JobRow]) -> int:
    """Count failures over ended jobs, in any order.

    - A person's stop resets the count; a lost runner is no failure.
    - A job resets the count only if it ran longer than the next back-off.
    """
    failures = 0
    for job in sorted(jobs, key=lambda job: job.started_at):
        if job.ended_at is None or job.state == "lost":
            continue
        if job.state != "failed" or _was_well(job, job.ended_at, failures):
            failures = 0
        failures += job.state == "failed"
    return failures


def is_forgiven(job: JobRow, failures: int, now: int) -> bool:
    """Return whether a running job has run long enough to reset the count of failures."""
    return failures > 0 and _was_well(job, now, failures)


def _was_well(job: JobRow, until: int, failures: int) -> bool:
    return until - job.started_at > restart_delay_ms(failures + 1)


def runner_delay_ms(failed_starts: int, losses: int = 0) -> int:
    """Return the delay from the last start to the restart of a runner that died; 0 at first.

    It grows if the runner dies during its start, or if its flows keep killing it (quick losses): a
    starting JVM uses all CPU of a small host.
    """
    dying = 0 if failed_starts == 0 else min(5_000 * 2 ** min(failed_starts - 1, 10), 300_000)
    further = losses - FREE_LOSSES
    killed = 0 if further < 0 else min(5_000 * 2 ** min(further, 10), MINUTE_MS)
    return max(dying, killed)


def quick_losses(jobs: Sequence[JobRow]) -> int:
    """Return how many jobs in a row, up to the newest, lost their runner soon after their start."""
    count = 0
    for job in sorted(jobs, key=lambda job: job.started_at, reverse=True):
        if job.ended_at is None:
            continue
        if job.state != "lost" or job.ended_at - job.started_at > SOON_MS:
            break
        count += 1
    return count

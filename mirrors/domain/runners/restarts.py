"""How long a restart waits, of a flow that failed and of a runner that died."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

MINUTE_MS = 60_000
LONGEST_MS = 60 * MINUTE_MS
# A job that loses its runner so soon after it began counts; so many in a row are free.
SOON_MS = 30_000
FREE_LOSSES = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobRow:
    """One run of the flow, as the database has it; open while `ended_at` is None."""

    id: int
    generation: int
    state: str
    started_at: int
    ended_at: int | None = None
    reason: str = ""


def restart_delay_ms(failures: int) -> int:
    """How long after its last start a flow that failed so often in a row is started again.

    n restarts made wait n² + n minutes, an hour at most; the first restart is immediate.
    """
    restarts = max(0, failures - 1)
    return min((restarts * restarts + restarts) * MINUTE_MS, LONGEST_MS)


def failures_in_a_row(jobs: Sequence[JobRow]) -> int:
    """Counted over ended jobs, in any order. A person's stop forgives; a lost runner is no failure.

    A job forgives those before it only when it was well for longer than the next back-off.
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
    """Whether a job that still runs has made up for the failures before it."""
    return failures > 0 and _was_well(job, now, failures)


def _was_well(job: JobRow, until: int, failures: int) -> bool:
    return until - job.started_at > restart_delay_ms(failures + 1)


def runner_delay_ms(failed_starts: int, losses: int = 0) -> int:
    """How long after its last start a runner that died is started again; at once at first.

    It waits when it dies while it starts, or when its flows keep killing it (quick losses): a Java
    machine that starts takes all there is of a small host.
    """
    dying = 0 if failed_starts == 0 else min(5_000 * 2 ** min(failed_starts - 1, 10), 300_000)
    further = losses - FREE_LOSSES
    killed = 0 if further < 0 else min(5_000 * 2 ** min(further, 10), MINUTE_MS)
    return max(dying, killed)


def quick_losses(jobs: Sequence[JobRow]) -> int:
    """How many jobs in a row, the newest last, lost their runner soon after they began."""
    count = 0
    for job in sorted(jobs, key=lambda job: job.started_at, reverse=True):
        if job.ended_at is None:
            continue
        if job.state != "lost" or job.ended_at - job.started_at > SOON_MS:
            break
        count += 1
    return count

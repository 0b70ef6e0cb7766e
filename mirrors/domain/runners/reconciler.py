"""The next action of the reconciler for one flow.

Pure: the reconciler reads (database, files, processes), calls decide(), acts, and repeats until the
action is `wait`. It always writes the spec file before it starts the runner that reads it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from mirrors.domain.runners.job_files import JobSpec, JobStatus, RunnerStatus
from mirrors.domain.runners.restarts import (
    FREE_LOSSES,
    JobRow,
    failures_in_a_row,
    quick_losses,
    restart_delay_ms,
    runner_delay_ms,
)

Desired = Literal["running", "paused", "stopped"]
Observed = Literal["starting", "running", "degraded", "backing_off", "paused", "stopped", "failed"]
Action = Literal[
    "start_runner", "replace_runner", "write_spec", "remove_spec", "wait", "back_off", "give_up"
]
JobEnd = Literal["stopped", "failed", "lost"]

# A runner writes its status every few seconds; this silent, it hangs. JVM start-up is slower.
SILENT_RUNNER_MS = 30_000
SLOW_START_MS = 120_000
# A flow's own status may pause while a large plan is made; the runner beside it still answers.
SILENT_FLOW_MS = 120_000
DELAYED_FLOW_MS = 15_000
# A ready runner looks for specs five times a second, each time before it writes its file.
TAKEN_UP_MS = 2_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Runner:
    """What is known of the flow's runner. `alive`: the process, not what its file says.

    - `status`: only if that process wrote it (same pid and start tick).
    - `started_at`: when the reconciler last started one.
    - `failed_starts`: how many in a row died before they were ready.
    - `has_flow`: its file names the flow.
    """

    alive: bool
    status: RunnerStatus | None = None
    started_at: int | None = None
    failed_starts: int = 0
    has_flow: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decision:
    """What to do, why, and the state to show.

    `job_ends`: end the open job with this state before acting. `write_spec` opens a job first if
    none is open.
    """

    action: Action
    reason: str
    observed: Observed
    job_ends: JobEnd | None = None
    retry_at: int | None = None
    # A bounded run has reached its end, or a first start was refused: the flow is to be stopped.
    finished: bool = False


def decide(
    *,
    desired: Desired,
    generation: int,
    jobs: Sequence[JobRow],
    runner: Runner,
    spec: JobSpec | None,
    status: JobStatus | None,
    now: int,
    most_failures: int | None = None,
    concern: str = "",
) -> Decision:
    """Return the next action for one flow. `most_failures` None: never give up.

    - `spec`, `status`: the flow's files as they are now. `jobs`: since an operator's last start.
    - `concern`: why a replicating flow is degraded although its runner sees no problem.
    """
    decision = _decide(desired, generation, jobs, runner, spec, status, now, most_failures)
    if not concern or desired != "running" or decision.observed not in ("running", "degraded"):
        return decision
    reason = concern if decision.observed == "running" else f"{decision.reason} {concern}".strip()
    return dataclasses.replace(decision, observed="degraded", reason=reason)


def _decide(
    desired: Desired,
    generation: int,
    jobs: Sequence[JobRow],
    runner: Runner,
    spec: JobSpec | None,
    status: JobStatus | None,
    now: int,
    most_failures: int | None,
) -> Decision:
    job = next((job for job in jobs if job.ended_at is None), None)
    # A status file outlives its job: only the open job's own counts.
    own = status if job is not None and status is not None and status.job == job.id else None
    if desired == "stopped":
        return _towards_stop(job, own, runner, spec, now)
    if job is None:
        return _next_start(jobs, now, most_failures)
    if own is not None and own.refusal:
        return Decision(
            action="remove_spec",
            reason=own.reason,
            observed="failed",
            job_ends="failed",
            finished=True,
        )
    if own is not None and own.finished:
        # Who pauses it just then keeps it paused: what is resumed later is another run.
        return Decision(
            action="remove_spec",
            reason=own.reason,
            observed="paused" if desired == "paused" else "stopped",
            job_ends="stopped",
            finished=desired == "running",
        )
    if own is not None and own.state == "failed":
        reason = own.reason or "It failed without a reason; see its runner's log."
        return Decision(
            action="remove_spec", reason=reason, observed="backing_off", job_ends="failed"
        )
    if not runner.alive and own is not None:
        return Decision(
            action="write_spec",
            reason="Its runner died; a new one resumes at the last commit.",
            observed="starting",
            job_ends="lost",
        )
    if (news := _news(desired, generation, job, spec)) is not None:
        return Decision(action="write_spec", reason=news, observed=_shown(own))
    if not runner.alive:
        return _without_runner(runner, quick_losses(jobs), now)
    return _hung(runner, now) or _with_runner(job, own, runner, now)


def _news(desired: Desired, generation: int, job: JobRow, spec: JobSpec | None) -> str | None:
    """Return what changed against the spec file, as a sentence; None if nothing did."""
    if spec is None or spec.job != job.id:
        return "Starts."
    if spec.generation != generation:
        return f"Applies changed settings or decisions (generation {generation})."
    if spec.desired != desired:
        return "Pauses." if desired == "paused" else "Resumes."
    return None


def _towards_stop(
    job: JobRow | None, own: JobStatus | None, runner: Runner, spec: JobSpec | None, now: int
) -> Decision:
    if job is None:
        action: Action = "wait" if spec is None else "remove_spec"
        return Decision(action=action, reason="Stopped.", observed="stopped")
    if not runner.alive:
        reason = "Stopped. Its runner is not running, so nothing is replicated."
    elif own is not None and own.state in {"stopped", "failed"}:
        reason = own.reason or "Stopped."
    elif spec is None and _does_not_have_it(runner, job):
        reason = "Stopped. Its runner does not run it."
    elif spec is None and (hung := _hung(runner, now)) is not None:
        return hung
    else:
        return Decision(
            action="wait" if spec is None else "remove_spec",
            reason="Waiting for the runner to commit and stop.",
            observed="running" if own is not None else "starting",
        )
    ends: JobEnd = "failed" if own is not None and own.state == "failed" else "stopped"
    return Decision(action="remove_spec", reason=reason, observed="stopped", job_ends=ends)


def _does_not_have_it(runner: Runner, job: JobRow) -> bool:
    """Return whether the runner never saw the spec, or the flow ended without a status."""
    if (said := runner.status) is None or runner.has_flow:
        return False
    return said.has_started and said.as_of > job.started_at + TAKEN_UP_MS


def _next_start(jobs: Sequence[JobRow], now: int, most_failures: int | None) -> Decision:
    failures = failures_in_a_row(jobs)
    newest = max((job for job in jobs if job.state == "failed"), key=_start_of, default=None)
    cause = f" Last failure: {newest.reason}" if newest and newest.reason else ""
    if most_failures is not None and failures > most_failures:
        return Decision(
            action="give_up",
            reason=f"Failed {failures} times in a row; start it manually once the cause is fixed."
            + cause,
            observed="failed",
        )
    last = max((job.started_at for job in jobs), default=0)
    retry_at = last + restart_delay_ms(failures) if failures else now
    if retry_at > now:
        seconds = -(-(retry_at - now) // 1000)
        return Decision(
            action="back_off",
            reason=f"Failed {failures} times in a row; restarts in {seconds} s.{cause}",
            observed="backing_off",
            retry_at=retry_at,
        )
    return Decision(action="write_spec", reason="Starts.", observed="starting")


def _start_of(job: JobRow) -> int:
    return job.started_at


def _without_runner(runner: Runner, losses: int, now: int) -> Decision:
    reason = f"The runner died {runner.failed_starts} times during its start; see its log."
    if losses >= FREE_LOSSES:
        reason = f"Its runner died {losses} times in a row soon after its start; see its log."
    retry_at = (runner.started_at or 0) + runner_delay_ms(runner.failed_starts, losses)
    if retry_at > now:
        return Decision(action="back_off", reason=reason, observed="backing_off", retry_at=retry_at)
    return Decision(action="start_runner", reason="No runner is running.", observed="starting")


def _hung(runner: Runner, now: int) -> Decision | None:
    if runner.status is None:
        if now - (runner.started_at or 0) <= SLOW_START_MS:
            return None
        reason = f"The runner wrote no status within {SLOW_START_MS // 1000} s of its start."
    else:
        silent = now - runner.status.as_of
        if silent <= (SLOW_START_MS if runner.status.state == "starting" else SILENT_RUNNER_MS):
            return None
        reason = f"The runner has not reported for {silent // 1000} s."
    return Decision(action="replace_runner", reason=reason, observed="degraded")


def _with_runner(job: JobRow, own: JobStatus | None, runner: Runner, now: int) -> Decision:
    if own is None:
        ready = runner.status is not None and runner.status.has_started
        silent = now - job.started_at
        if ready and silent > SILENT_RUNNER_MS:
            reason = f"The runner has not started the flow for {silent // 1000} s."
            return Decision(action="wait", reason=reason, observed="degraded")
        reason = "Waiting for the runner to start the flow." if ready else "The runner is starting."
        return Decision(action="wait", reason=reason, observed="starting")
    if own.state == "stopped":
        return _stopped_by_itself(own, runner)
    return _running(own, now)


def _stopped_by_itself(own: JobStatus, runner: Runner) -> Decision:
    if runner.status is not None and runner.status.state == "stopping":
        return Decision(action="wait", reason="Its runner is stopping.", observed="starting")
    reason = f"Stopped although it should run ({own.reason or 'no reason given'}); restarts."
    return Decision(action="write_spec", reason=reason, observed="starting", job_ends="lost")


def _running(own: JobStatus, now: int) -> Decision:
    silent = now - own.as_of
    if silent > SILENT_FLOW_MS:
        reason = f"The flow has not reported for {silent // 1000} s; restarts."
        return Decision(action="write_spec", reason=reason, observed="degraded", job_ends="lost")
    if silent > DELAYED_FLOW_MS:
        reason = f"No metrics from the runner for {silent // 1000} s."
        return Decision(action="wait", reason=reason, observed="degraded")
    return Decision(action="wait", reason=own.reason, observed=_shown(own))


def _shown(own: JobStatus | None) -> Observed:
    states: dict[str, Observed] = {
        "running": "running",
        "degraded": "degraded",
        "paused": "paused",
    }
    return "starting" if own is None else states.get(own.state, "starting")


# A flow without a job keeps these states when it is stopped.
AT_REST = frozenset({"draft", "stopped", "failed", "failed_over"})


def next_observed(
    decision: Decision, *, observed: str, desired: str, has_job: bool, leaves: bool
) -> str | None:
    """Return the state to store after a decision; None to leave state and reason as they are.

    `leaves`: its job commits and ends first, because of a stop, a restart or another runner.
    """
    if leaves and desired != "stopped":
        return observed if decision.job_ends is None else "starting"
    if decision.observed == "stopped" and not has_job and observed in AT_REST:
        return None
    return decision.observed


# A runner reports at least every three seconds, and its worker reads that every two or five.
STALE_S = 20.0
_STARTED = frozenset({"ready", "degraded"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerHealth:
    """The state to show. `reason` is empty only if there is nothing to report."""

    state: str
    reason: str

    @property
    def is_healthy(self) -> bool:
        return self.state == "ready"


def runner_health(*, state: str, reason: str, report_age_s: float | None) -> RunnerHealth:
    """Return the health. With an outdated report the runner counts as degraded."""
    if state not in _STARTED or (report_age_s is not None and report_age_s <= STALE_S):
        return RunnerHealth(state=state, reason=reason)
    age = "never" if report_age_s is None else f"{report_age_s:.0f} s ago"
    why = (
        f"It last reported {age}, so its figures may be outdated: the runner, or the worker on "
        "its host, does not respond."
    )
    return RunnerHealth(state="degraded", reason=f"{why} {reason}".strip())

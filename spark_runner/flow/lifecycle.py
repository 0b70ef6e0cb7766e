"""One flow in a runner: plan, run one Spark job per slice and epoch, write the status file.

The flow's thread never waits for Kafka. A background thread runs the blocking operations, Spark
jobs have their own threads. The flow's thread handles results once a second, or when woken.

`flow.state` declares the phases and their transitions.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Iterable

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.flows.bandwidth import is_live_edit
from mirrors.domain.runners.job_files import JobSpec, JobState, PartitionStatus
from mirrors.domain.specs import FlowSpec
from spark_runner.flow.operation_schedule import OperationSchedule
from spark_runner.flow.operations import Event, Operations
from spark_runner.flow.runner_resources import RunnerResources
from spark_runner.flow.slice_balance import SliceBalance
from spark_runner.flow.slice_supervisor import SliceSupervisor
from spark_runner.flow.state import PHASES, FlowFacts, Phase, visible_state
from spark_runner.status.file import FlowStatusWriter
from spark_runner.status.flow import FlowProgress
from spark_runner.status.job import job_status

log = logging.getLogger("spark_runner.flow")

TICK_S = 1.0
COMMITTING_TICK_S = 0.1
# Slices obey an order at a commit, within milliseconds. Later, their Spark jobs are cancelled.
COMMIT_S = 5.0
# A stop or pause waits at most this long for MM2's copy. The copy is written in any case.
LAST_COPY_S = 0.8
LAST_CALL_S = 60.0


class FlowRun(threading.Thread):
    def __init__(self, job: JobSpec, resources: RunnerResources) -> None:
        super().__init__(name=f"flow-{job.flow}", daemon=True)
        self._resources = resources
        self._wake = threading.Event()
        # Specs received from the runner's thread and not handled yet. None is a stop.
        self.pending_specs: list[JobSpec | None] = []
        self._next_phase: Phase = "taking_over"
        self._stop_deadline = 0.0
        self._last_copy: float | None = None
        self._next_job: JobSpec | None = None
        self._earlier_problems: tuple[str, ...] = ()
        self._balance = SliceBalance(time.monotonic())
        self._lag_s: float | None = None
        self.is_stopping = False
        self.ended = threading.Event()
        self._status_writer = FlowStatusWriter(resources.directory)
        self._wake.set()
        self._begin(job)

    # Called from the runner's thread.

    def update(self, job: JobSpec) -> None:
        """A new spec for the same flow: pause, resume, edit."""
        self.pending_specs.append(job)
        self._wake.set()

    def stop(self, reason: str) -> None:
        """Commit and end. The last status gives the reason."""
        self.is_stopping = True
        self._stop_reason = reason
        self.pending_specs.append(None)
        self._wake.set()

    # Called on the flow's own thread.

    def run(self) -> None:
        try:
            while self._phase != "stopped" or self._status_writer.has_unwritten:
                self._wake.wait(self._wait_s(time.monotonic()))
                self._wake.clear()
                self._step(time.monotonic())
        except Exception as error:
            # An internal error becomes a visible state.
            log.exception("Flow %s", self.job.name)
            self._supervisor.order("stop")
            self._fail(f"Internal error in the runner: {type(error).__name__}: {error}.")
            self._report(time.monotonic())
        finally:
            self._resources.slots.release(self.job.flow)
            self.ended.set()
            # A call in progress must not outlive the flow: it could take over from the successor.
            self._operations.close()
            self._operations.join(LAST_CALL_S)

    def _wait_s(self, now: float) -> float:
        """Seconds to sleep unless woken."""
        if self._phase == "committing":
            return COMMITTING_TICK_S
        return (
            min(TICK_S, self._status_writer.wait_s(now)) if self._supervisor.has_changes else TICK_S
        )

    def _begin(self, job: JobSpec, earlier: FlowProgress | None = None) -> None:
        """Start over: a new plan, a new owner name, no state of an earlier spec.

        `earlier`: the progress of the same job, whose counts go on.
        """
        self.job = job
        self._phase: Phase = "taking_over" if job.desired == "running" else "paused"
        self._next_phase = self._phase
        self._next_job = None
        self._reason = ""
        # A bounded run that is complete, or whose window has closed.
        self._finished = False
        # The error code of a refused first start.
        self._refusal_code = ""
        until: int | None = None
        # The end of a bounded run is found once, so its slices stay as they are.
        self._may_pack = False
        schedule = OperationSchedule(None)
        try:
            settings = FlowSpec.build(
                source=job.source, target=job.target, properties=job.properties
            ).settings
            until = settings.run_until_ms
            self._may_pack = settings.run_until is None
            if settings.refresh_topics_enabled:
                schedule = OperationSchedule(settings.refresh_topics_interval_seconds)
        except InvalidSettings as error:
            self._fail(error.message)
        resources, wake = self._resources, self._wake.set
        self._progress = FlowProgress(job, int(time.time() * 1000), earlier)
        self._supervisor = SliceSupervisor(
            job,
            resources.control,
            resources.jobs,
            self._progress,
            wake,
            self._balance,
            lane=resources.lane,
        )
        now = time.monotonic()
        self._balance.begin(now)
        self._operations = Operations(
            job,
            schedule,
            resources.slots,
            self._progress,
            self._supervisor,
            wake,
            until=until,
            rates=self._balance.rates(now),
        )

    def _step(self, now: float) -> None:
        while self.pending_specs:
            self._apply(self.pending_specs.pop(0), now)
        self._supervisor.collect(int(time.time() * 1000))
        for event in self._operations.step(self._phase, now):
            self._handle(event, now)
        if self._phase == "copying":
            self._copy(now)
        elif self._phase == "committing":
            self._await_slices(now)
        if self._status_writer.is_due(
            self._visible_state(), self._progress, now, has_changes=self._supervisor.has_changes
        ):
            self._report(now)
        if self._phase in ("failed", "stopped"):
            # Nothing is copied any more. The last status may still wait for disk space.
            self._resources.slots.release(self.job.flow)

    def _apply(self, spec: JobSpec | None, now: float) -> None:
        if spec is None:
            self._reason = self._stop_reason
            self._begin_commit("stopped", now)
        elif self._is_packing and _is_live_edit(spec, self.job):
            self._next_job = self._take_spec(spec)
            if spec.desired == "paused":
                # A pause commits as well, and the next start packs.
                self._next_job = None
                self._begin_commit("paused", now)
        elif (
            # An edit in progress may be the one that this spec reverts.
            self._next_job is not None
            or self._phase == "failed"
            or not _is_live_edit(spec, self.job)
        ):
            self._next_job = spec
            self._begin_commit("taking_over", now)
        else:
            if spec.decisions != self.job.decisions:
                self._operations.schedule.request("plan")
            self._take_spec(spec)
            if spec.desired == "paused" and self._phase in ("taking_over", "copying"):
                self._begin_commit("paused", now)
            elif spec.desired == "running" and self._next_phase == "paused":
                self._resume()

    def _take_spec(self, spec: JobSpec) -> JobSpec:
        self.job = self._progress.job = self._supervisor.job = spec
        return spec

    @property
    def _is_packing(self) -> bool:
        """Whether the slices commit so that the same job packs its partitions again."""
        return self._phase == "committing" and self._next_job is self.job

    def _begin_commit(self, next_phase: Phase, now: float) -> None:
        if self._phase not in ("failed", "paused"):
            self._earlier_problems = self._problems() or self._earlier_problems
        self._next_phase = next_phase
        self._enter("committing")
        self._stop_deadline = now + COMMIT_S
        self._last_copy = None
        self._supervisor.order("stop")

    def _resume(self) -> None:
        self._next_phase = "taking_over"
        self._enter("copying" if self._operations.is_planned else "taking_over")
        self._operations.schedule.request("look")
        self._supervisor.retry_now()

    def _handle(self, event: Event, now: float) -> None:
        if event == "planned" and self._phase == "taking_over":
            self._enter("copying")
        elif event == "no_slots":
            self._fail(self._operations.no_slots)
        elif event == "start_refused" and self._operations.start_refused is not None:
            self._reason = self._operations.start_refused.message
            self._refusal_code = self._operations.start_refused.code
            self._begin_commit("stopped", now)
        elif event == "ownership_lost":
            self._reason = (
                "Another runner has taken this flow over; this runner writes nothing more. "
                "Make sure that only one control plane runs the flow, then start it again."
            )
            self._begin_commit("failed", now)

    def _copy(self, now: float) -> None:
        wall = int(time.time() * 1000)
        if ended := self._progress.end_reason(wall):
            self._reason = ended
            self._finished = True
            self._begin_commit("stopped", now)
            return
        self._operations.follow_up(now, wall)
        if self._supervisor.is_fenced:
            return
        self._supervisor.maintain(wall)
        if self._may_pack and self._balance.is_due(now):
            verdict = self._supervisor.judge_packing(self._lag_s, now)
            if verdict.state == "due":
                log.info("Flow %s packs its slices again. %s", self.job.name, verdict.reason)
                self._balance.packed(now, wall)
                self._next_job = self.job
                self._begin_commit("taking_over", now)

    def _await_slices(self, now: float) -> None:
        """Wait for the slices and MM2's copy of the positions, then enter the next phase."""
        if not self._supervisor.is_idle:
            if now > self._stop_deadline:
                self._stop_deadline = now + COMMIT_S
                self._supervisor.cancel()
            return
        if self._last_copy is None:
            self._last_copy = now
            # A runner that lost the flow has older positions than the new owner.
            if self._next_phase != "failed":
                self._operations.copy_positions(now)
        if self._operations.is_busy and now < self._last_copy + LAST_COPY_S:
            return
        if self._next_phase != "taking_over":
            self._enter(self._next_phase)
        elif not self._operations.is_busy and self._next_job is not None:
            self._operations.close()
            # The same job keeps its slots and its counts.
            earlier = self._progress if self._is_packing else None
            if earlier is None:
                self._resources.slots.release(self.job.flow)
            self._begin(self._next_job, earlier)

    def _fail(self, reason: str) -> None:
        self._enter("failed")
        self._reason = reason

    def _enter(self, phase: Phase) -> None:
        PHASES.check(self._phase, phase)
        self._phase = phase
        if phase == "copying":
            self._earlier_problems = ()

    def _report(self, now: float) -> None:
        as_of = int(time.time() * 1000)
        self._progress.throttle_reason = self._supervisor.throttle_reason(as_of)
        state, reason = self._visible_state()
        self._supervisor.has_changes = False
        slices = self._supervisor.statuses(as_of)
        status = job_status(self._progress, state, reason, slices, as_of)
        is_over = self._finished and state == "stopped"
        refusal = self._refusal_code if state == "stopped" else ""
        status = dataclasses.replace(
            status, finished=is_over, refusal=refusal, packing=self._balance.verdict
        )
        self._lag_s = _lag_s(status.partitions)
        self._status_writer.write(self.job, status, now)

    def _problems(self) -> tuple[str, ...]:
        slices = self._supervisor.problems()
        return (*self._operations.problems.values(), *slices, *self._progress.problems())

    def _visible_state(self) -> tuple[JobState, str]:
        facts = FlowFacts(
            phase=self._phase,
            next_phase=self._next_phase,
            reason=self._reason,
            problems=self._problems(),
            earlier_problems=self._earlier_problems,
            is_copying=self._supervisor.has_started,
            throttle_reason=self._progress.throttle_reason,
            has_partitions=self._progress.has_partitions,
        )
        return visible_state(facts)


def _lag_s(partitions: Iterable[PartitionStatus]) -> float | None:
    """Age of the oldest record of a partition that is copied; None if one is unknown."""
    lags = [row.time_lag_ms for row in partitions if row.state in ("in_sync", "syncing", "lagging")]
    return None if None in lags else max(filter(None, lags), default=0) / 1000


def _is_live_edit(one: JobSpec, other: JobSpec) -> bool:
    """Whether the specs differ only in settings that running slices accept without a new plan."""
    same = (one.job, one.source, one.target) == (other.job, other.source, other.target)
    return same and is_live_edit(one.properties, other.properties)

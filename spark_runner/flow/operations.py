"""The operations of a flow: choose the due one, call Kafka, apply the result."""

from __future__ import annotations

import dataclasses
import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Literal

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.migration.start_check import StartRefused
from mirrors.domain.runners.job_files import JobSpec
from spark_runner.flow.background_thread import BackgroundThread
from spark_runner.flow.kafka_calls import KafkaCalls, MetadataChanges
from spark_runner.flow.operation_schedule import Operation, OperationSchedule
from spark_runner.flow.slice_supervisor import SliceSupervisor
from spark_runner.flow.state import Phase
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.plan import Plan
from spark_runner.positions.writer import is_producer_lost
from spark_runner.spark.slots import Slots
from spark_runner.status.flow import FlowProgress

# Results that the flow has to handle. All others only change the progress.
Event = Literal["planned", "ownership_lost", "no_slots", "start_refused"]
# An operator cannot decide on a gap while the source has not answered.
GAP_RANGES_AGAIN_S = 60.0

_ALLOWED: dict[Phase, tuple[Operation, ...]] = {
    "taking_over": ("owner", "open"),
    "copying": ("selected", "owner", "plan", "look", "positions", "ends", "remotes"),
    "paused": ("selected", "positions", "look", "ends"),
    "committing": (),
    "failed": (),
    "stopped": (),
}


class Operations:
    """Calls, thread and schedule of one job. Used by the flow's thread."""

    def __init__(
        self,
        job: JobSpec,
        schedule: OperationSchedule,
        slots: Slots,
        progress: FlowProgress,
        supervisor: SliceSupervisor,
        wake: Callable[[], None],
        *,
        until: int | None,
        rates: Mapping[TopicPartition, float] | None = None,
    ) -> None:
        """`rates`: observed bytes per second by partition, to pack the slices by."""
        owner = f"{socket.gethostname()} {os.getpid()} job {job.job} {uuid.uuid4().hex}"
        self._flow = job.flow
        self._slots = slots
        self._progress = progress
        self._supervisor = supervisor
        self._calls = KafkaCalls(job, owner, rates)
        self._thread = BackgroundThread(f"calls-{job.flow}", wake)
        # Its own thread: while the target does not respond, the source is still sampled.
        self._sampler_thread = BackgroundThread(f"offsets-{job.flow}", wake)
        # A plan or a recreated topic was applied since the sample in progress began.
        self._is_sample_outdated = False
        self._is_paused = False
        self.schedule = schedule
        # A future moment: then the end offsets of a bounded run are looked up.
        self._until = until
        # Gaps for which a plan was requested, with the time of the request.
        self._gaps_asked: dict[tuple[TopicPartition, int | None], float] = {}
        self.is_planned = False
        self.problems: dict[Operation, str] = {}
        self.no_slots = ""
        # Why the first start was refused. It is not retried.
        self.start_refused: StartRefused | None = None

    @property
    def is_busy(self) -> bool:
        return self._thread.is_busy

    @property
    def is_sampling(self) -> bool:
        return self._sampler_thread.is_busy

    def close(self) -> None:
        self._sampler_thread.submit("close", self._calls.close_sampler)
        self._sampler_thread.stop()
        self._thread.submit("close", self._calls.close)
        self._thread.stop()

    def join(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for thread in (self._thread, self._sampler_thread):
            thread.join(max(0.0, until - time.monotonic()))

    def step(self, phase: Phase, now: float) -> list[Event]:
        """Handle results, then start the next operation that is due."""
        events: list[Event] = []
        while (result := self._thread.poll() or self._sampler_thread.poll()) is not None:
            operation: Operation = result.operation  # type: ignore[assignment]
            if isinstance(result.error, StartRefused):
                self.start_refused = result.error
                events.append("start_refused")
            elif result.error is not None:
                self._on_error(operation, result.error, now)
            else:
                events += self._on_result(operation, result.value, now)
        self._is_paused = phase == "paused"
        for operation in _ALLOWED[phase]:
            is_free = not self._thread_of(operation).is_busy
            if is_free and self.schedule.is_due(operation, now):
                self._start(operation, now)
        if self.no_slots and phase == "taking_over":
            events.append("no_slots")
        return events

    def follow_up(self, now: float, wall: int) -> None:
        """Request operations that copying has made necessary: an ownership check, another plan."""
        if self._until is not None and wall >= self._until:
            self._until = None
            self.schedule.request("plan")
        if self._supervisor.is_fenced:
            self.schedule.request_unless_pending("owner")
            return
        wanted = self._progress.gaps_without_range()
        wanted |= {(tp, gap.behind) for tp, gap in self._progress.skipped_gaps().items()}
        asked = {gap for gap, at in self._gaps_asked.items() if now < at + GAP_RANGES_AGAIN_S}
        if wanted - asked:
            self._gaps_asked = dict.fromkeys(wanted, now)
            self.schedule.request("plan")
        if self.schedule.retry_faulted(now, any_faulted=self._progress.has_retryable_problems):
            self._supervisor.retry_faulted()
            self.schedule.request("plan")

    def copy_positions(self, now: float) -> None:
        """Write MM2's copy after copying has stopped, at once or after the call in progress."""
        if self.is_planned:
            self._start("positions", now)

    def _on_result(self, operation: Operation, value: Any, now: float) -> list[Event]:
        self.problems.pop(operation, None)
        events: list[Event] = []
        if operation in ("open", "plan"):
            self.problems.clear()
            events = self._apply_plan(value, now)
        elif operation == "look":
            self._apply_changes(value)
        elif operation == "selected":
            if self._progress.mark_unplanned(value):
                self.schedule.request("ends")
        elif operation == "ends":
            if not self._is_sample_outdated:
                self._progress.apply_offsets(value)
        elif operation == "remotes":
            self._progress.add_foreign_records(value)
        elif operation == "owner":
            self._supervisor.is_fenced = False
            events = [] if value else ["ownership_lost"]
        is_busy = operation == "ends" and (
            self._progress.has_backlog() or self._progress.has_uncounted()
        )
        self.schedule.mark_done(operation, now, is_busy=is_busy)
        if operation == "ends" and self._is_sample_outdated:
            self.schedule.request("ends")
        return events

    def _apply_changes(self, found: MetadataChanges) -> None:
        # While the flow is paused no plan is made, so this is the only report of them.
        self._progress.mark_recreated(found.recreated)
        self._is_sample_outdated |= bool(found.recreated)
        if found.has_changed:
            self.schedule.request("plan")
        else:
            self._progress.mark_unplanned({})

    def _on_error(self, operation: Operation, error: UnderstudyError, now: float) -> None:
        self.problems[operation] = error.message
        self.schedule.mark_failed(operation, error, now)
        if operation == "positions":
            # MM2's copy is out of date although no position changes any more.
            self._supervisor.has_new_positions = True
        if operation != "owner" and is_producer_lost(error):
            self.schedule.request("owner")

    def _apply_plan(self, plan: Plan, now: float) -> list[Event]:
        if not self._slots.hold(self._flow, plan.slice_count):
            if self.is_planned:
                # Another flow took the slots meanwhile. Plan again with what is left.
                self.schedule.retry_soon("plan", now)
            else:
                self._set_no_slots(plan.slice_count)
            return []
        warnings = (*plan.warnings, *self._supervisor.warnings())
        recovered = self._progress.apply_plan(dataclasses.replace(plan, warnings=warnings))
        self._is_sample_outdated = True
        self._supervisor.apply_plan(plan)
        self._supervisor.restart_partitions(plan.resumed)
        self._supervisor.forget_errors(recovered)
        self.is_planned = True
        # Sample offsets again: the plan may have stopped partitions.
        self.schedule.request("ends")
        return ["planned"]

    def _set_no_slots(self, needed: int) -> None:
        total = self._slots.total
        words = (
            f"The runner has no free slot for the flow: it needs {needed}, and "
            f"{self._slots.used} of {total} are used. Stop a flow, lower tasks.max, "
            "or give the flow another runner."
        )
        if total == 0:
            words = (
                "The runner has no free slot for the flow: no Spark executor is alive. Start a "
                "Spark worker; the runner's page shows the cause."
            )
        if self.is_planned:
            # The flow continues with the plan that it has.
            self.problems["plan"] = words
        else:
            self.no_slots = words

    def _start(self, operation: Operation, now: float) -> bool:
        """Whether the call has started."""
        act = self._call_for(operation)
        if act is None:
            self.schedule.mark_done(operation, now, is_busy=False)
            return False
        self.schedule.mark_started(operation)
        if operation == "ends":
            self._is_sample_outdated = False
        self._thread_of(operation).submit(operation, act)
        return True

    def _thread_of(self, operation: Operation) -> BackgroundThread:
        return self._sampler_thread if operation in ("ends", "selected") else self._thread

    def _call_for(self, operation: Operation) -> Callable[[], Any] | None:
        calls, positions = self._calls, self._progress.positions()
        if operation in ("open", "plan"):
            return self._planning_call(operation)
        if operation == "positions":
            if not self._supervisor.has_new_positions:
                return None
            self._supervisor.has_new_positions = False
            return lambda: calls.copy_positions(positions)
        if operation == "ends":
            partitions, starts = (
                self._progress.partitions(),
                self._progress.partitions_without_start(),
            )
            headers = self._progress.header_requests()
            return (
                (lambda: calls.sample_offsets(partitions, starts, headers, positions))
                if partitions
                else None
            )
        if operation == "selected":
            # Otherwise a plan follows the change at once. A call may wait for a dead target.
            is_wanted = self._is_paused or bool(self.problems) or self._thread.is_busy
            return calls.find_selected if is_wanted and self.is_planned else None
        if operation == "look":
            return calls.detect_changes if self.is_planned else None
        if operation == "remotes":
            remotes = self._progress.remotes(self._supervisor.reports())
            return (lambda: calls.find_foreign_records(remotes)) if remotes else None
        return calls.is_owner

    def _planning_call(self, operation: Operation) -> Callable[[], Any] | None:
        calls, positions = self._calls, self._progress.positions()
        progress = self._progress
        context = PlanContext(progress.job.decisions, progress.gaps(), progress.skipped_gaps())
        most = self._slots.free_for(self._flow)
        if most == 0:
            self._set_no_slots(1)
            return None
        self.no_slots = ""
        if operation == "open":
            return lambda: calls.open(most, context)
        slices = self._supervisor.slice_of
        return lambda: calls.plan(most, positions, slices, context)

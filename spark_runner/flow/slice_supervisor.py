"""The slices of one flow: distribute the plan's work, collect reports into the flow's progress."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.flows.slice_packing import PackingVerdict
from mirrors.domain.flows.speed_limits import UNMEASURED
from mirrors.domain.runners.job_files import JobSpec, SliceStatus
from mirrors.domain.settings.client_properties import without_effect
from mirrors.domain.settings.flow_control import HIGH, LOW
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.priority import PriorityRules
from spark_runner.flow.slice_balance import SliceBalance
from spark_runner.ipc.driver_server import ControlServer
from spark_runner.ipc.messages import (
    Figures,
    PartitionError,
    PartitionFigure,
    PartitionWork,
    SliceResult,
    SliceWork,
)
from spark_runner.ipc.task_channel import Order
from spark_runner.planning.plan import Plan
from spark_runner.positions.topic import slice_id
from spark_runner.slices.bandwidth import BandwidthShares
from spark_runner.slices.epoch_job import Epoch
from spark_runner.slices.run import SLOT_S, EpochReport, SliceRun
from spark_runner.slices.throughput import Throughput
from spark_runner.spark.jobs import SparkJobs
from spark_runner.status.flow import FlowProgress

NO_CLASSES = (
    f"{HIGH} and {LOW} have no effect in the record lane, which reads all partitions in turn: run "
    "this flow in a runner that uses the raw lane."
)


def lane_warnings(job: JobSpec, lane: str) -> tuple[str, ...]:
    flow = FlowSpec(source=job.source, target=job.target, properties=job.properties)
    settings = flow.settings
    if lane != "raw":
        return (NO_CLASSES,) if PriorityRules(settings).are_used else ()
    return (
        *without_effect(settings.consumer, "consumer"),
        *without_effect(settings.producer, "producer"),
    )


class SliceSupervisor:
    def __init__(
        self,
        job: JobSpec,
        control: ControlServer,
        jobs: SparkJobs,
        progress: FlowProgress,
        wake: Callable[[], None],
        balance: SliceBalance,
        *,
        lane: str,
    ) -> None:
        self.job = job
        self._balance = balance
        self._lane = lane
        self._control = control
        self._jobs = jobs
        self._progress = progress
        self._wake = wake
        self._plan: Plan | None = None
        # The slice of each partition, also after the partition stopped. It never changes.
        self.slice_of: dict[TopicPartition, int] = {}
        self._slices: dict[int, SliceRun] = {}
        self._throughput: dict[int, Throughput] = {}
        # Reports up to this epoch are out of date for the partition: its errors, its figures.
        self._errors_ignored: dict[TopicPartition, int] = {}
        self._figures_ignored: dict[TopicPartition, int] = {}
        # The plan, errors and stopped partitions for which an epoch was last found up to date.
        self._up_to_date: dict[Epoch, object] = {}
        self._bandwidth = BandwidthShares()
        self.is_fenced = False
        # `has_new_positions`: MM2's copy is out of date. `has_changes`: the status file is.
        self.has_new_positions = False
        self.has_changes = False

    @property
    def is_idle(self) -> bool:
        return all(run.is_idle for run in self._slices.values())

    @property
    def has_started(self) -> bool:
        """Whether every slice with work has started to copy."""
        return all(
            run.is_copying or self._partitions_of(index) == {}
            for index, run in self._slices.items()
        )

    def warnings(self) -> tuple[str, ...]:
        """Settings of the flow that have no effect in its lane."""
        return lane_warnings(self.job, self._lane)

    def apply_plan(self, plan: Plan) -> None:
        """Slices with other partitions get a successor epoch. All other slices run on."""
        self._plan = plan
        self.slice_of = {**self.slice_of, **plan.slices}
        for index in range(plan.slice_count):
            if index not in self._slices:
                self._slices[index] = SliceRun(
                    index,
                    self._control,
                    self._jobs.launch,
                    self._wake,
                    self._jobs.rotation.free_slots,
                )
                self._throughput[index] = Throughput()

    def collect(self, now: int) -> None:
        for index, run in self._slices.items():
            for epoch, message in run.collect():
                self._bandwidth.record(index, message, now)
                growth = self._throughput[index].count(epoch, message)
                self._progress.add_copied(growth)
                self._balance.record(growth.partitions, time.monotonic())
                self._progress.apply_figures(
                    [
                        row
                        for row in message.partitions
                        if self._is_current(row, self._figures_ignored, epoch)
                    ],
                    now,
                )
                self._progress.add_errors(
                    row
                    for row in message.errors
                    if self._is_current(row, self._errors_ignored, epoch)
                )
                if message.partitions:
                    self.has_new_positions = self.has_changes = True
                if isinstance(message, SliceResult) and message.ended_because == "fenced":
                    self.is_fenced = True

    @staticmethod
    def _is_current(
        row: PartitionFigure | PartitionError, old: dict[TopicPartition, int], epoch: int
    ) -> bool:
        return epoch > old.get((row.topic, row.partition), 0)

    def judge_packing(self, lag_s: float | None, now: float) -> PackingVerdict:
        """Whether to pack the partitions again. `lag_s`: age of the oldest record not copied."""
        plan = self._plan
        slices = {} if plan is None else plan.slices
        copied = {tp: index for tp, index in slices.items() if tp not in self._progress.errors}
        return self._balance.judge(copied, len(self._slices), lag_s, now)

    def reports(self) -> dict[TopicPartition, EpochReport]:
        """For each partition that is copied now: the epoch and the time of its last report."""
        reports = {index: run.report() for index, run in self._slices.items()}
        return {
            tp: report
            for tp, index in self.slice_of.items()
            if (report := reports.get(index)) is not None
        }

    def maintain(self, now: int) -> None:
        for index, run in self._slices.items():
            run.maintain(self._make_work, partial(self._is_outdated, index))
            for epoch in run.epochs():
                if epoch.is_unresponsive() or epoch.is_overdue():
                    self._jobs.cancel(epoch.work)
        rates = {index: throughput.rates()[1] for index, throughput in self._throughput.items()}
        self._bandwidth.distribute(self.job.properties, self._slices, rates, now)
        self._jobs.rotation.rotate(self.job.flow, self._slices.values(), time.monotonic())

    def throttle_reason(self, now: int) -> str:
        """Why the flow copies more slowly than it could; empty if it does not."""
        rotation = self._jobs.rotation.reason(self.job.flow, time.monotonic())
        return self._bandwidth.reason(now) or rotation

    def order(self, word: Order) -> None:
        """Order all epochs to end. An epoch without a slot cannot receive orders: cancel its
        job."""
        now = time.monotonic()
        self._jobs.rotation.forget(self.job.flow)
        for run in self._slices.values():
            run.order(word)
            for epoch in run.epochs():
                if epoch.waiting_s(now) > SLOT_S:
                    self._jobs.cancel(epoch.work)

    def cancel(self) -> None:
        """Cancel the jobs of epochs that did not obey. Fencing makes this safe."""
        for run in self._slices.values():
            for epoch in run.epochs():
                self._jobs.cancel(epoch.work)

    def retry_now(self) -> None:
        for run in self._slices.values():
            run.retry_now()

    def retry_faulted(self) -> None:
        """Retry partitions that stopped for a record or a permission.

        Not retried: gaps, partitions whose records a decision skips (the next plan handles those),
        and partitions that the current plan has stopped.
        """
        skipped = self._progress.skipped_gaps()
        tried = [
            tp
            for tp, error in self._progress.errors.items()
            if error.state == "faulted"
            and tp not in skipped
            and not (self._plan is not None and tp in self._plan.stopped)
        ]
        for tp in tried:
            del self._progress.errors[tp]
        self.forget_errors(tried)

    def forget_errors(self, partitions: Iterable[TopicPartition]) -> None:
        """Ignore later reports of errors of these partitions from the present epoch."""
        for tp in partitions:
            if self._plan is not None and tp in self._plan.slices:
                self._errors_ignored[tp] = self._slices[self._plan.slices[tp]].epoch

    def restart_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Ignore all later reports of the present epoch on partitions that resume elsewhere."""
        for tp in partitions:
            if self._plan is not None and tp in self._plan.slices:
                run = self._slices[self._plan.slices[tp]]
                # Its start offsets are out of date, and its reports would be ignored.
                run.dismiss_successor()
                self._figures_ignored[tp] = self._errors_ignored[tp] = run.epoch

    def problems(self) -> Iterator[str]:
        now = time.monotonic()
        return (reason for run in self._slices.values() if (reason := run.problem(now)))

    def statuses(self, now: int) -> list[SliceStatus]:
        return [self._status(index, run, now) for index, run in sorted(self._slices.items())]

    def _partitions_of(self, index: int) -> dict[TopicPartition, PartitionWork]:
        if self._plan is None:
            return {}
        return {
            tp: work
            for tp, work in self._plan.partitions.items()
            if self._plan.slices[tp] == index and tp not in self._progress.errors
        }

    def _is_outdated(self, index: int, epoch: Epoch) -> bool:
        """Whether the plan or a retried partition requires another epoch."""
        now = self._plan, self._progress.errors.keys() | (), len(epoch.stopped)
        if self._up_to_date.get(epoch) == now:
            return False
        if self._differs(index, epoch):
            return True
        self._up_to_date = {
            one: seen for one, seen in self._up_to_date.items() if one.result is None
        }
        self._up_to_date[epoch] = now
        return False

    def _differs(self, index: int, epoch: Epoch) -> bool:
        has = {(row.topic, row.partition): row for row in epoch.work.partitions}
        wanted = self._partitions_of(index)
        if not wanted.keys() <= has.keys() - epoch.stopped:
            return True
        if has.keys() - epoch.stopped - self._progress.errors.keys() - wanted.keys():
            return True
        return any(
            dataclasses.replace(has[tp], start=row.start) != row for tp, row in wanted.items()
        )

    def _make_work(self, index: int, epoch: int, deadline: int) -> SliceWork | None:
        plan, job = self._plan, self.job
        rows = self._partitions_of(index)
        if plan is None or not rows:
            return None
        name = f"{job.source.alias}->{job.target.alias}"
        return SliceWork(
            job=job.job,
            flow=job.flow,
            generation=job.generation,
            name=name,
            index=index,
            count=plan.slice_count,
            epoch=epoch,
            deadline=deadline,
            lane=self._lane,
            source=job.source,
            target=job.target,
            properties=job.properties,
            source_cluster_id=plan.source_cluster_id,
            target_cluster_id=plan.target_cluster_id,
            positions_topic=plan.positions_topic,
            transactional_id=slice_id(name, index),
            partitions=tuple(rows.values()),
            owner=plan.owner,
        )

    def _status(self, index: int, run: SliceRun, now: int) -> SliceStatus:
        last: Figures | None = run.current.last if run.current is not None else None
        problem = run.problem(time.monotonic())
        state = "waiting" if problem else (last.state if last else "starting")
        throughput = self._throughput[index]
        records_rate, bytes_rate = throughput.rates()
        return SliceStatus(
            index=index,
            state="idle" if run.is_idle and not run.is_waiting_to_retry else state,
            reason=problem or run.reason,
            epoch=run.epoch,
            partitions=len(self._partitions_of(index)),
            records=throughput.records,
            bytes=throughput.bytes,
            records_per_second=round(records_rate, 1),
            bytes_per_second=round(bytes_rate, 1),
            pid=last.pid if last else None,
            as_of=last.as_of if last else now,
            speed=last.speed if last else UNMEASURED,
            generation=(run.current.work if run.current is not None else self.job).generation,
        )

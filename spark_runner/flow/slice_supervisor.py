"""All slices of one flow: give them work by the plan, fold what they say into the board."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from mirrors.domain.runners.job_files import JobSpec, SliceStatus
from mirrors.domain.settings.client_properties import without_effect
from mirrors.domain.settings.flow_control import HIGH, LOW
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.priority import Ranks
from spark_runner.ipc.driver_server import ControlServer
from spark_runner.ipc.messages import (
    Figures,
    PartitionError,
    PartitionFigure,
    PartitionWork,
    SliceResult,
    SliceWork,
)
from spark_runner.ipc.task_channel import OrderWord
from spark_runner.planning.plan import Plan
from spark_runner.positions.topic import Place, slice_id
from spark_runner.slices.bandwidth import Sharing
from spark_runner.slices.epoch_job import Epoch
from spark_runner.slices.run import SLOT_S, Report, SliceRun
from spark_runner.slices.throughput import Meter
from spark_runner.spark.jobs import SparkJobs
from spark_runner.status.board import Board

NO_CLASSES = (
    f"{HIGH} and {LOW} have no effect in the record lane, which reads all partitions in turn: run "
    "this flow in a runner that copies by the raw lane."
)


def warnings_of(job: JobSpec, lane: str) -> tuple[str, ...]:
    flow = FlowSpec(source=job.source, target=job.target, properties=job.properties)
    settings = flow.settings
    if lane != "raw":
        return (NO_CLASSES,) if Ranks(settings).are_used else ()
    return (
        *without_effect(settings.consumer, "consumer"),
        *without_effect(settings.producer, "producer"),
    )


class Copying:
    def __init__(
        self,
        job: JobSpec,
        control: ControlServer,
        jobs: SparkJobs,
        board: Board,
        wake: Callable[[], None],
        *,
        lane: str,
    ) -> None:
        self.job = job
        self._lane = lane
        self._control = control
        self._jobs = jobs
        self._board = board
        self._wake = wake
        self._plan: Plan | None = None
        # In which slice each partition is copied, or was until it stopped; never another one.
        self.places: dict[Place, int] = {}
        self._slices: dict[int, SliceRun] = {}
        self._meters: dict[int, Meter] = {}
        # The newest epoch whose words of a partition count no more: of its errors, of its position.
        self._forgiven: dict[Place, int] = {}
        self._resumed: dict[Place, int] = {}
        # What an epoch was last compared with, and found to do all of it.
        self._fitting: dict[Epoch, object] = {}
        self._sharing = Sharing()
        self.fenced = False
        # `has_moved`: MM2's copy of the positions is behind; `has_news`: the status file is.
        self.has_moved = False
        self.has_news = False

    @property
    def is_idle(self) -> bool:
        return all(run.is_idle for run in self._slices.values())

    @property
    def is_under_way(self) -> bool:
        """Every slice that has something to copy has begun to."""
        return all(
            run.is_copying or self._contents(index) == {} for index, run in self._slices.items()
        )

    def warnings(self) -> tuple[str, ...]:
        """What the flow asks for and its lane does nothing with."""
        return warnings_of(self.job, self._lane)

    def adopt(self, plan: Plan) -> None:
        """Slices whose partitions differ will get a successor; the others do not notice."""
        self._plan = plan
        self.places = {**self.places, **plan.slices}
        for index in range(plan.slice_count):
            if index not in self._slices:
                self._slices[index] = SliceRun(index, self._control, self._jobs.launch, self._wake)
                self._meters[index] = Meter()

    def harvest(self, now: int) -> None:
        for index, run in self._slices.items():
            for epoch, said in run.harvest():
                self._sharing.heard(index, said, now)
                self._board.copied(self._meters[index].count(epoch, said))
                self._board.moved(
                    [row for row in said.partitions if self._counts(row, self._resumed, epoch)], now
                )
                self._board.failed(
                    row for row in said.errors if self._counts(row, self._forgiven, epoch)
                )
                if said.partitions:
                    self.has_moved = self.has_news = True
                if isinstance(said, SliceResult) and said.ended_because == "fenced":
                    self.fenced = True

    @staticmethod
    def _counts(row: PartitionFigure | PartitionError, old: dict[Place, int], epoch: int) -> bool:
        return epoch > old.get((row.topic, row.partition), 0)

    def reports(self) -> dict[Place, Report]:
        """Of each partition whose slice copies now: its epoch, and when that last reported."""
        said = {index: run.report() for index, run in self._slices.items()}
        return {
            place: report
            for place, index in self.places.items()
            if (report := said.get(index)) is not None
        }

    def tend(self, now: int) -> None:
        for index, run in self._slices.items():
            run.tend(self._make_work, partial(self._is_outdated, index))
            for epoch in run.epochs():
                if epoch.is_mute() or epoch.is_overdue():
                    self._jobs.cancel(epoch.work)
        rates = {index: meter.rates()[1] for index, meter in self._meters.items()}
        self._sharing.deal(self.job.properties, self._slices, rates, now)
        self._jobs.turns.take(self.job.flow, self._slices.values(), time.monotonic())

    def held_back(self, now: int) -> str:
        """What makes the flow slower than it might be; empty when nothing does."""
        turns = self._jobs.turns.words(self.job.flow, time.monotonic())
        return self._sharing.words(now) or turns

    def order(self, word: OrderWord) -> None:
        """Who waits for a slot would hear it only when one is free: the wait ends here."""
        now = time.monotonic()
        self._jobs.turns.forget(self.job.flow)
        for run in self._slices.values():
            run.order(word)
            for epoch in run.epochs():
                if epoch.waits_s(now) > SLOT_S:
                    self._jobs.cancel(epoch.work)

    def cancel(self) -> None:
        """Those that did not obey: fencing makes it safe."""
        for run in self._slices.values():
            for epoch in run.epochs():
                self._jobs.cancel(epoch.work)

    def forgive(self) -> None:
        for run in self._slices.values():
            run.forgive()

    def retry_faulted(self) -> None:
        """Partitions that a record or a right stopped are tried again; gaps are not, nor what a
        person has decided to pass by: the next plan does that. What a plan has stopped stays so
        until another plan lets it go on."""
        passed = self._board.passed()
        tried = [
            place
            for place, error in self._board.errors.items()
            if error.state == "faulted"
            and place not in passed
            and not (self._plan is not None and place in self._plan.stopped)
        ]
        for place in tried:
            del self._board.errors[place]
        self.forget_errors(tried)

    def forget_errors(self, places: Iterable[Place]) -> None:
        """What the present epoch still says of these at its end is old."""
        for place in places:
            if self._plan is not None and place in self._plan.slices:
                self._forgiven[place] = self._slices[self._plan.slices[place]].epoch

    def resume(self, places: Iterable[Place]) -> None:
        """Partitions that go on elsewhere: what the present epoch says of them is old."""
        for place in places:
            if self._plan is not None and place in self._plan.slices:
                run = self._slices[self._plan.slices[place]]
                # It may copy on from there, and would not be heard.
                run.dismiss_successor()
                self._resumed[place] = self._forgiven[place] = run.epoch

    def troubles(self) -> Iterator[str]:
        now = time.monotonic()
        return (words for run in self._slices.values() if (words := run.trouble(now)))

    def statuses(self, now: int) -> list[SliceStatus]:
        return [self._status(index, run, now) for index, run in sorted(self._slices.items())]

    def _contents(self, index: int) -> dict[Place, PartitionWork]:
        if self._plan is None:
            return {}
        return {
            place: work
            for place, work in self._plan.partitions.items()
            if self._plan.slices[place] == index and place not in self._board.errors
        }

    def _is_outdated(self, index: int, epoch: Epoch) -> bool:
        """Whether the plan, or a partition that is tried again, asks for another epoch."""
        now = self._plan, self._board.errors.keys() | (), len(epoch.stopped)
        if self._fitting.get(epoch) == now:
            return False
        if self._differs(index, epoch):
            return True
        self._fitting = {one: seen for one, seen in self._fitting.items() if one.result is None}
        self._fitting[epoch] = now
        return False

    def _differs(self, index: int, epoch: Epoch) -> bool:
        has = {(row.topic, row.partition): row for row in epoch.work.partitions}
        wants = self._contents(index)
        if not wants.keys() <= has.keys() - epoch.stopped:
            return True
        if has.keys() - epoch.stopped - self._board.errors.keys() - wants.keys():
            return True
        return any(
            dataclasses.replace(has[place], start=row.start) != row for place, row in wants.items()
        )

    def _make_work(self, index: int, epoch: int, deadline: int) -> SliceWork | None:
        plan, job = self._plan, self.job
        rows = self._contents(index)
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
        trouble = run.trouble(time.monotonic())
        state = "waiting" if trouble else (last.state if last else "starting")
        meter = self._meters[index]
        records_rate, bytes_rate = meter.rates()
        return SliceStatus(
            index=index,
            state="idle" if run.is_idle and not run.waits_to_retry else state,
            reason=trouble or run.reason,
            epoch=run.epoch,
            partitions=len(self._contents(index)),
            records=meter.records,
            bytes=meter.bytes,
            records_per_second=round(records_rate, 1),
            bytes_per_second=round(bytes_rate, 1),
            pid=last.pid if last else None,
            as_of=last.as_of if last else now,
        )

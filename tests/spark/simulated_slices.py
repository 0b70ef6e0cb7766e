"""Slices whose Spark jobs are threads, over a real control connection."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable

from spark_runner.ipc.driver_server import ControlServer
from spark_runner.ipc.messages import Figures, SliceResult, SliceWork
from spark_runner.ipc.task_channel import Channel
from spark_runner.slices.epoch_job import Epoch
from spark_runner.slices.run import SliceRun
from tests.spark.lab import wait_for
from tests.spark.test_control_connection import work


class Stage:
    """Plays the tasks, and remembers who copied when."""

    def __init__(self) -> None:
        self.copying: list[int] = []
        self.most_at_once = 0
        self.begun: list[int] = []
        self.failing: set[int] = set()
        # Epochs that release their successor, and what holds back their result.
        self.releasing: set[int] = set()
        self.may_end = threading.Event()
        # Releasing epochs whose job fails after their last commit.
        self.lost: set[int] = set()
        self.slots = threading.Semaphore(100)
        self._lock = threading.Lock()

    def launch(self, work: SliceWork) -> SliceResult:
        self.begun.append(work.epoch)
        if work.epoch in self.failing:
            return SliceResult(ended_because="failed", reason="The target is down.")
        with self.slots:
            return self._run(work)

    def _run(self, work: SliceWork) -> SliceResult:
        channel = Channel(work)
        try:
            if not channel.wait_for_turn(work.deadline / 1000 - time.time()):
                return SliceResult(ended_because=channel.order() or "deadline", reason="")
            return self._copy(work, channel)
        finally:
            channel.close()

    def _copy(self, work: SliceWork, channel: Channel) -> SliceResult:
        with self._lock:
            self.copying.append(work.epoch)
            self.most_at_once = max(self.most_at_once, len(self.copying))
        channel.report(Figures(as_of=1, pid=work.epoch, state="copying"))
        channel.wait_for_order(work.deadline / 1000 - time.time())
        with self._lock:
            self.copying.remove(work.epoch)
        if work.epoch in self.releasing:
            channel.report(Figures(as_of=2, pid=work.epoch, state="copying"))
            channel.release()
            self.may_end.wait(10.0)
            if work.epoch in self.lost:
                raise ConnectionError("the executor is gone")
        return SliceResult(ended_because=channel.order() or "deadline", reason="")


class Flow:
    """The flow's thread, reduced to what a slice needs."""

    def __init__(self, stage: Stage) -> None:
        self.free_slots = 0
        self.control = ControlServer("127.0.0.1", "127.0.0.1")
        self.run = SliceRun(0, self.control, stage.launch, lambda: None, lambda: self.free_slots)
        self.is_outdated: Callable[[Epoch], bool] = lambda _: False
        self.has_work = True

    def make_work(self, index: int, epoch: int, deadline: int) -> SliceWork | None:
        if not self.has_work:
            return None
        return dataclasses.replace(work("", ""), index=index, epoch=epoch, deadline=deadline)

    def step(self) -> list[tuple[int, Figures | SliceResult]]:
        said = self.run.collect()
        self.run.maintain(self.make_work, self.is_outdated)
        return said

    def until(self, look: Callable[[], object], seconds: float = 10.0) -> None:
        def stepped() -> object:
            self.step()
            return look()

        wait_for(stepped, seconds=seconds, pause=0.01)

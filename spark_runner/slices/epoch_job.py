"""One epoch of a slice: its Spark job, and the reports of its task."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from mirrors.domain.cluster_snapshot import TopicPartition
from spark_runner.ipc.driver_server import ControlServer
from spark_runner.ipc.messages import Figures, SliceResult, SliceWork
from spark_runner.ipc.task_channel import Order, slice_key

# A lane reports every five seconds. The longest pause is a flush and a commit.
SILENCE_S = 90.0

log = logging.getLogger("spark_runner.epochs")


class Launcher(Protocol):
    """Runs one epoch as a Spark job, and blocks until it has ended."""

    def __call__(self, work: SliceWork) -> SliceResult: ...


class Epoch:
    """A Spark job that runs one epoch. The task's reports wait here for the flow's thread."""

    def __init__(
        self,
        work: SliceWork,
        control: ControlServer,
        launch: Launcher,
        wake: Callable[[], None],
    ) -> None:
        self._control = control
        self._launch = launch
        self._wake = wake
        self.connection = control.register(slice_key(work), self._on_figures)
        self.connection.on_ready = self._became_ready
        self.connection.on_released = self._released
        self.work = dataclasses.replace(
            work,
            control_address=control.address,
            control_token=self.connection.token,
            control_certificate=control.certificate,
        )
        self.is_ready = False
        self.ordered = False
        self.has_turn = False
        # Set when the task has committed its last batch. Its result follows over Spark.
        self.has_released = False
        self._successor: Epoch | None = None
        self.last: Figures | None = None
        self.unread: deque[Figures] = deque()
        # Partitions that this epoch has reported as stopped.
        self.stopped: set[TopicPartition] = set()
        self.result: SliceResult | None = None
        self._thread = threading.Thread(target=self._run, name=f"slice-{work.index}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def order(self, order: Order) -> None:
        if not self.ordered:
            self.ordered = True
            self.connection.send_order(order)

    def hand_over(self, successor: Epoch) -> None:
        """End at a commit. The successor gets its turn at that commit, before Spark reports it."""
        self._successor = successor
        self.order("handover")

    def give_turn(self) -> None:
        if not self.has_turn:
            self.has_turn = True
            self.connection.send_turn()

    def left_s(self) -> float:
        return self.work.deadline / 1000 - time.time()

    def waiting_s(self, now: float) -> float:
        """How long the epoch has waited for a Spark slot. The start of its task is included."""
        return (
            0.0
            if self.connection.is_connected or self.result is not None
            else now - self.connection.since
        )

    def working_s(self, now: float) -> float:
        """How long its task has been connected."""
        return (
            now - self.connection.since
            if self.connection.is_connected and self.result is None
            else 0.0
        )

    def is_unresponsive(self) -> bool:
        seen = self.connection.seen_at
        return self.result is None and seen is not None and time.monotonic() - seen > SILENCE_S

    def is_overdue(self) -> bool:
        """Neither an order nor the deadline has ended it."""
        return self.result is None and self.left_s() < -SILENCE_S

    def _run(self) -> None:
        try:
            self.result = self._launch(self.work)
        except Exception as error:
            # Without a result the slice and its flow would wait forever.
            log.exception("Slice %s, epoch %s", self.work.index, self.work.epoch)
            reason = f"Spark's client failed ({type(error).__name__}: {error})."
            self.result = SliceResult(ended_because="failed", reason=reason, code="spark")
        finally:
            self._control.unregister(self.connection)
            self._wake()

    def _on_figures(self, figures: Figures) -> None:
        first = self.last is None
        self.last = figures
        self.unread.append(figures)
        if first or figures.errors or figures.partitions:
            self._wake()

    def _released(self) -> None:
        """Called by the thread of the control server."""
        self.has_released = True
        if self._successor is not None:
            self._successor.give_turn()

    def _became_ready(self) -> None:
        self.is_ready = True
        self._wake()

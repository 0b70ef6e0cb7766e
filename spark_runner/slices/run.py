"""One slice over time: one Spark job per epoch, with overlap, retries and backoff.

The successor connects while its predecessor still copies. The predecessor ends at a commit. Only
then may the successor fence and copy, so the change of epochs does not interrupt replication.
If Spark has no slot for both, the predecessor ends first and the successor takes its slot.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from spark_runner.ipc.driver_server import ControlServer
from spark_runner.ipc.messages import Figures, SliceResult, SliceWork
from spark_runner.ipc.task_channel import Order
from spark_runner.slices.epoch_job import Epoch, Launcher

HANDOVER_S = 5.0
# The first epoch, and the first one after a failure. Each success makes the next epoch longer: a
# new task costs as much as an idle one does in a minute.
SHORTEST_EPOCH_S = 30.0
EPOCH_GROWTH = 4
LONGEST_EPOCH_S = 600.0
FIRST_RETRY_S = 1.0
LAST_RETRY_S = 10.0
# A task with a free slot connects within this time, unless the machine is busy.
SLOT_S = 3.0
# While a cluster starts, it has no slots. Do not report that at once.
WAITING_FOR_SLOT_S = 20.0

NO_SLOT = (
    f"Spark gave the next epoch no slot within {SLOT_S:.0f} s, so the present epoch ends first: "
    "its partitions pause for a moment. More slots than slices avoid that."
)
STARTING = (
    "The Python worker of slice {} has not connected to the runner after {:.0f} s, although Spark "
    "has a free slot. Is the host of the executor overloaded, or can it not reach the driver?"
)
WAITING_FOR_SLOT = (
    "Slice {} waits for a Spark slot: Spark has fewer slots than there are slices. Stop a flow, "
    "lower tasks.max, or give Spark more executors."
)

log = logging.getLogger("spark_runner.epochs")

MakeWork = Callable[[int, int, int], SliceWork | None]


class EpochReport(NamedTuple):
    """The copying epoch, and the time of its last report in seconds of time.monotonic()."""

    epoch: int
    reported_at: float


class SliceRun:
    """The epochs of one slice in sequence. Used by the flow's thread only."""

    def __init__(
        self,
        index: int,
        control: ControlServer,
        launch: Launcher,
        wake: Callable[[], None],
        free_slots: Callable[[], int],
    ) -> None:
        self.index = index
        self._free_slots = free_slots
        self._control = control
        self._launch = launch
        self._wake = wake
        self._length_s = SHORTEST_EPOCH_S
        self._failures = 0
        self._retry_at = 0.0
        self._successor_at = 0.0
        # Since when successors have found no slot.
        self._without_slot_since: float | None = None
        self._has_copied = False
        self.epoch = 0
        self.reason = ""
        self.current: Epoch | None = None
        self.successor: Epoch | None = None
        self._dismissed: list[Epoch] = []

    @property
    def is_idle(self) -> bool:
        return self.current is None and self.successor is None and not self._dismissed

    @property
    def is_copying(self) -> bool:
        """True also while one epoch takes over from another."""
        if self.current is None:
            return False
        self._has_copied |= self.current.last is not None
        return self._has_copied

    @property
    def is_waiting_to_retry(self) -> bool:
        return self.current is None and self._failures > 0

    def waiting_s(self, now: float) -> float:
        """How long the current epoch has waited for a slot."""
        return self.current.waiting_s(now) if self.current is not None else 0.0

    def working_s(self, now: float) -> float:
        """How long the current epoch has had a slot."""
        return self.current.working_s(now) if self.current is not None else 0.0

    def problem(self, now: float) -> str:
        """Why this slice copies nothing; empty if it copies."""
        if self.is_waiting_to_retry:
            return self.reason
        if (waiting_s := self.waiting_s(now)) <= WAITING_FOR_SLOT_S:
            return ""
        text = STARTING if self._free_slots() > 0 else WAITING_FOR_SLOT
        return text.format(self.index, waiting_s)

    def release_slot(self) -> None:
        """End at a commit, so that another slice gets the slot; then wait for a slot again."""
        if self.current is not None:
            self.current.order("handover")

    def order(self, order: Order) -> None:
        """End at a commit. No epoch follows until `maintain` is called with work."""
        for epoch in (self.current, self.successor):
            if epoch is not None:
                epoch.order(order)

    def retry_now(self) -> None:
        """An operator asked for it: retry at once."""
        self._retry_at = 0.0

    def report(self) -> EpochReport | None:
        """None while nothing is copied, or while reports of the epoch are not applied yet."""
        epoch = self.current
        if epoch is None or epoch.result is not None or epoch.unread or epoch.last is None:
            return None
        if (
            epoch.last.state != "copying"
            or not epoch.connection.is_connected
            or epoch.connection.seen_at is None
        ):
            return None
        return EpochReport(epoch.work.epoch, epoch.connection.seen_at)

    def epochs(self) -> list[Epoch]:
        """The epochs in progress."""
        known = (self.current, self.successor, *self._dismissed)
        return [epoch for epoch in known if epoch is not None]

    def collect(self) -> list[tuple[int, Figures | SliceResult]]:
        """Reports since the last call, each with its epoch. Removes epochs that have ended."""
        messages: list[tuple[int, Figures | SliceResult]] = []
        for epoch in self.epochs():
            # A successor may copy already while the result of its predecessor is on its way. Its
            # reports wait, so that older positions never follow newer ones.
            while epoch.unread and (epoch is not self.successor or self.current is None):
                figures = epoch.unread.popleft()
                epoch.stopped |= {(error.topic, error.partition) for error in figures.errors}
                messages.append((epoch.work.epoch, figures))
        self._dismissed = [epoch for epoch in self._dismissed if epoch.result is None]
        if self.successor is not None and self.successor.result is not None:
            self.successor = None
            self._successor_at = time.monotonic() + FIRST_RETRY_S
        if self.current is not None and self.current.result is not None:
            messages.append((self.current.work.epoch, self.current.result))
            self._ended(self.current, self.current.result)
        return messages

    def maintain(self, make_work: MakeWork, is_outdated: Callable[[Epoch], bool]) -> None:
        """Keep one epoch running. Replace an epoch at once when the plan has changed."""
        now = time.monotonic()
        if self.current is None:
            if now >= self._retry_at and (epoch := self._begin(make_work)) is not None:
                self.current = epoch
                epoch.give_turn()
            return
        if self.successor is not None and is_outdated(self.successor):
            self.dismiss_successor()
        # A successor of an epoch whose task still starts would start no sooner.
        is_late = self.current.connection.is_connected and self.current.left_s() < HANDOVER_S
        due = is_outdated(self.current) or is_late
        if self.successor is not None:
            self._hand_over(self.current, self.successor, now)
        elif not due:
            self._without_slot_since = None
        elif not self.current.ordered and now >= self._successor_at:
            self.successor = self._begin(make_work)
            if self.successor is None:
                self.current.order("replan")
            elif self._without_slot_since is None:
                self._without_slot_since = now

    def _hand_over(self, current: Epoch, successor: Epoch, now: float) -> None:
        if successor.connection.is_connected:
            self._without_slot_since = None
            if successor.is_ready:
                self.reason = ""
                current.hand_over(successor)
        elif now - (self._without_slot_since or now) <= SLOT_S or current.ordered:
            return
        elif self._free_slots() == 0:
            self.reason = NO_SLOT
            log.info("Slice %s, epoch %s: %s", self.index, current.work.epoch, NO_SLOT)
            current.order("handover")

    def _begin(self, make_work: MakeWork) -> Epoch | None:
        self.epoch += 1
        deadline = int((time.time() + self._length_s) * 1000)
        work = make_work(self.index, self.epoch, deadline)
        if work is None:
            return None
        epoch = Epoch(work, self._control, self._launch, self._wake)
        epoch.start()
        return epoch

    def _ended(self, epoch: Epoch, result: SliceResult) -> None:
        self.current = self._without_slot_since = None
        # An epoch that was ordered to end and whose job was cancelled counts as ended.
        is_cancelled = (epoch.ordered or epoch.has_released) and result.code == "spark"
        if is_cancelled or result.ended_because == "stop":
            self._has_copied = False
        if is_cancelled or result.ended_because in ("deadline", "handover", "replan", "stop"):
            self._failures, self._retry_at = 0, 0.0
            if self.reason != NO_SLOT or result.ended_because != "handover":
                self.reason = ""
            self._length_s = min(LONGEST_EPOCH_S, self._length_s * EPOCH_GROWTH)
            if self.successor is not None and not self.successor.ordered:
                self.current, self.successor = self.successor, None
                self.current.give_turn()
            return
        self.dismiss_successor()
        delay = min(LAST_RETRY_S, FIRST_RETRY_S * 2**self._failures)
        self._failures += 1
        self._length_s = SHORTEST_EPOCH_S
        self._has_copied = False
        self._retry_at = time.monotonic() + delay
        self.reason = f"{result.reason} Retry in {delay:.0f} s."

    def dismiss_successor(self) -> None:
        """Order the successor to stop. A new one starts when it is due."""
        if self.successor is not None:
            self.successor.order("stop")
            self._dismissed.append(self.successor)
            self.successor = None

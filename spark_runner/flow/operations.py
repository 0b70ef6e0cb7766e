"""A flow's errands: which is due in this phase, what it is asked with, what its answer changes."""

from __future__ import annotations

import dataclasses
import os
import socket
import uuid
from collections.abc import Callable
from typing import Any, Literal

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.migration.start_check import StartRefused
from mirrors.domain.runners.job_files import JobSpec
from spark_runner.flow.background_thread import Clerk
from spark_runner.flow.kafka_calls import Desk
from spark_runner.flow.operation_schedule import Agenda, Errand
from spark_runner.flow.slice_supervisor import Copying
from spark_runner.planning.gaps import Orders
from spark_runner.planning.plan import Plan
from spark_runner.positions.topic import Place
from spark_runner.positions.writer import has_lost_pen
from spark_runner.spark.slots import Slots
from spark_runner.status.board import Board

Phase = Literal["opening", "copying", "resting", "paused", "failed", "stopped"]
# What the flow has to know: the rest is folded into the board here.
Event = Literal["opened", "lost", "refused", "not_started"]
# Nobody can decide on a gap whose source has not answered yet.
NUMBERS_AGAIN_S = 60.0

_POSSIBLE: dict[Phase, tuple[Errand, ...]] = {
    "opening": ("owner", "open"),
    "copying": ("owner", "plan", "look", "positions", "ends", "remotes"),
    "paused": ("positions", "ends", "look"),
    "resting": (),
    "failed": (),
    "stopped": (),
}


class Office:
    """Clerk, desk and agenda of one job; used by the flow's thread."""

    def __init__(
        self,
        job: JobSpec,
        agenda: Agenda,
        slots: Slots,
        board: Board,
        copying: Copying,
        wake: Callable[[], None],
        *,
        until: int | None,
    ) -> None:
        owner = f"{socket.gethostname()} {os.getpid()} job {job.job} {uuid.uuid4().hex}"
        self._flow = job.flow
        self._slots = slots
        self._board = board
        self._copying = copying
        self._desk = Desk(job, owner)
        self._clerk = Clerk(f"clerk-{job.flow}", wake)
        self.agenda = agenda
        # A moment to come, at which the end of a bounded run is looked up.
        self._until = until
        # Gaps whose numbers the planner was asked for, or which it was asked to pass by, and when.
        self._asked: dict[tuple[Place, int | None], float] = {}
        self.is_planned = False
        self.trouble: dict[Errand, str] = {}
        self.refusal = ""
        # Why the first start was refused, and it is not tried again.
        self.not_started: StartRefused | None = None

    @property
    def busy(self) -> bool:
        return self._clerk.busy

    def close(self) -> None:
        self._clerk.ask("close", self._desk.close)
        self._clerk.dismiss()

    def join(self, seconds: float) -> None:
        self._clerk.join(seconds)

    def step(self, phase: Phase, now: float) -> list[Event]:
        """Hear what was answered, and send the clerk on the next errand that is due."""
        events: list[Event] = []
        while (answer := self._clerk.take()) is not None:
            errand: Errand = answer.errand  # type: ignore[assignment]
            if isinstance(answer.error, StartRefused):
                self.not_started = answer.error
                events.append("not_started")
            elif answer.error is not None:
                self._stumbled(errand, answer.error, now)
            else:
                events += self._heard(errand, answer.value, now)
        if not self._clerk.busy:
            for errand in _POSSIBLE[phase]:
                if self.agenda.is_due(errand, now) and self._ask(errand, now):
                    break
        if self.refusal and phase == "opening":
            events.append("refused")
        return events

    def notice(self, now: float, wall: int) -> None:
        """What copying has shown sends the clerk out: for the owner's name, or for another plan."""
        if self._until is not None and wall >= self._until:
            self._until = None
            self.agenda.want("plan")
        if self._copying.fenced:
            self.agenda.suggest("owner")
            return
        wanted = self._board.unnumbered()
        wanted |= {(place, gap.behind) for place, gap in self._board.passed().items()}
        asked = {gap for gap, at in self._asked.items() if now < at + NUMBERS_AGAIN_S}
        if wanted - asked:
            self._asked = dict.fromkeys(wanted, now)
            self.agenda.want("plan")
        if self.agenda.retry_faulted(now, any_faulted=self._board.is_retried):
            self._copying.retry_faulted()
            self.agenda.want("plan")

    def copy_positions(self, now: float) -> None:
        """For MM2, when nothing is copied any more: at once, or behind what is under way."""
        if self.is_planned:
            self._ask("positions", now)

    def _heard(self, errand: Errand, value: Any, now: float) -> list[Event]:
        self.trouble.pop(errand, None)
        events: list[Event] = []
        if errand in ("open", "plan"):
            self.trouble.clear()
            events = self._adopt(value, now)
        elif errand == "look":
            # While nothing is copied no plan is made; then this is all that is known of them.
            self._board.found_recreated(value.recreated)
            if value.has_changed:
                self.agenda.want("plan")
        elif errand == "ends":
            self._board.reaches(value)
        elif errand == "remotes":
            self._board.meet_foreign(value)
        elif errand == "owner":
            self._copying.fenced = False
            events = [] if value else ["lost"]
        self.agenda.done(errand, now, moving=self._board.is_moving())
        return events

    def _stumbled(self, errand: Errand, error: UnderstudyError, now: float) -> None:
        self.trouble[errand] = error.message
        self.agenda.failed(errand, error, now)
        if errand == "positions":
            # MM2's copy is still behind, though nothing moves any more.
            self._copying.has_moved = True
        if errand != "owner" and has_lost_pen(error):
            self.agenda.want("owner")

    def _adopt(self, plan: Plan, now: float) -> list[Event]:
        if not self._slots.hold(self._flow, plan.slice_count):
            if self.is_planned:
                # Another flow took meanwhile what this plan was to have: with what is left, then.
                self.agenda.again("plan", now)
            else:
                self._refuse(plan.slice_count)
            return []
        warnings = (*plan.warnings, *self._copying.warnings())
        healed = self._board.planned(dataclasses.replace(plan, warnings=warnings))
        self._copying.adopt(plan)
        self._copying.resume(plan.resumed)
        self._copying.forget_errors(healed)
        self.is_planned = True
        # What is stopped since this plan is sampled afresh.
        self.agenda.want("ends")
        return ["opened"]

    def _refuse(self, needed: int) -> None:
        total = self._slots.total
        words = (
            f"This runner has no free slot for the flow: it needs {needed}, and "
            f"{self._slots.used} of {total} are used. Stop a flow, lower tasks.max, "
            "or give the flow another runner."
        )
        if total == 0:
            words = (
                "This runner has no free slot for the flow: no Spark executor is alive. Start a "
                "Spark worker; the runner's page says what is wrong."
            )
        if self.is_planned:
            # It goes on with what it has.
            self.trouble["plan"] = words
        else:
            self.refusal = words

    def _ask(self, errand: Errand, now: float) -> bool:
        """Whether the clerk is on the way now."""
        act = self._act(errand)
        if act is None:
            self.agenda.done(errand, now, moving=False)
            return False
        self.agenda.begun(errand)
        self._clerk.ask(errand, act)
        return True

    def _act(self, errand: Errand) -> Callable[[], Any] | None:
        desk, positions = self._desk, self._board.positions()
        if errand in ("open", "plan"):
            return self._act_of_planning(errand)
        if errand == "positions":
            if not self._copying.has_moved:
                return None
            self._copying.has_moved = False
            return lambda: desk.copy_positions(positions)
        if errand == "ends":
            places, starts = self._board.places(), self._board.without_start()
            undated = self._board.undated()
            return (lambda: desk.sample(places, starts, undated, positions)) if places else None
        if errand == "look":
            return desk.look if self.is_planned else None
        if errand == "remotes":
            remotes = self._board.remotes(self._copying.reports())
            return (lambda: desk.find_foreign(remotes)) if remotes else None
        return desk.is_owner

    def _act_of_planning(self, errand: Errand) -> Callable[[], Any] | None:
        desk, positions = self._desk, self._board.positions()
        board = self._board
        orders = Orders(board.job.decisions, board.gaps(), board.passed())
        most = self._slots.free_for(self._flow)
        if most == 0:
            self._refuse(1)
            return None
        self.refusal = ""
        if errand == "open":
            return lambda: desk.open(most, orders)
        slices = self._copying.places
        return lambda: desk.plan(most, positions, slices, orders)

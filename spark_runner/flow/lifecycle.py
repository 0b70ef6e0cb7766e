"""One flow in a runner: plan, one Spark job per slice and epoch, fold into the status file.

The thread of a flow never waits for Kafka: a clerk runs its errands (take over, plan, look for
changes, ends, MM2's copy of the positions), Spark jobs run on threads of their own, and this
thread turns what they say into decisions, once a second or when woken. Phases:

opening   the clerk takes the flow over and plans; nothing is copied
copying   every slice has an epoch, or waits to try again
resting   every slice was told to stop and is awaited; then comes what `_then` says
paused    the plan is kept, nothing is copied
failed    somebody has to change something; a new spec starts all over
stopped   the thread ends
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.flows.bandwidth import is_live_edit
from mirrors.domain.runners.job_files import JobSpec, JobState
from mirrors.domain.specs import FlowSpec
from spark_runner.flow.operation_schedule import Agenda
from spark_runner.flow.operations import Event, Office, Phase
from spark_runner.flow.runner_resources import Host
from spark_runner.flow.slice_supervisor import Copying
from spark_runner.flow.state import Standing, verdict
from spark_runner.status.board import Board
from spark_runner.status.file import FlowReport

log = logging.getLogger("spark_runner.flow")

TICK_S = 1.0
RESTING_TICK_S = 0.1
# An order is obeyed at a commit, within milliseconds; who does not is cut off.
OBEY_S = 5.0
# Who waits for a stop or a pause does not wait longer for MM2's copy; it is written all the same.
LAST_COPY_S = 0.8
LAST_ERRAND_S = 60.0


class FlowRun(threading.Thread):
    def __init__(self, job: JobSpec, host: Host) -> None:
        super().__init__(name=f"flow-{job.flow}", daemon=True)
        self._host = host
        self._wake = threading.Event()
        # Asked for, and not looked at yet by this thread; None is the stop.
        self.unheard: list[JobSpec | None] = []
        self._then: Phase = "opening"
        self._rest_until = 0.0
        self._last_copy: float | None = None
        self._next: JobSpec | None = None
        self.is_leaving = False
        self.ended = threading.Event()
        self._told = FlowReport(host.directory)
        self._wake.set()
        self._begin(job)

    # Called from the runner's thread.

    def update(self, job: JobSpec) -> None:
        """Another spec for the same flow: pause, resume, edit."""
        self.unheard.append(job)
        self._wake.set()

    def stop(self, reason: str) -> None:
        """Commit and end; the last status says why."""
        self.is_leaving = True
        self._parting = reason
        self.unheard.append(None)
        self._wake.set()

    # The flow's own thread.

    def run(self) -> None:
        try:
            while self._phase != "stopped" or self._told.is_behind:
                self._wake.wait(self._patience(time.monotonic()))
                self._wake.clear()
                self._step(time.monotonic())
        except Exception as error:
            # A defect of ours becomes a named state.
            log.exception("Flow %s", self.job.name)
            self._copying.order("stop")
            self._fail(f"The runner met a defect: {type(error).__name__}: {error}.")
            self._report(time.monotonic())
        finally:
            self._host.slots.release(self.job.flow)
            self.ended.set()
            # An errand under way must not outlive the flow: it could take over from its successor.
            self._office.close()
            self._office.join(LAST_ERRAND_S)

    def _patience(self, now: float) -> float:
        """How long to sleep when nobody wakes us."""
        if self._phase == "resting":
            return RESTING_TICK_S
        return min(TICK_S, self._told.news_wait_s(now)) if self._copying.has_news else TICK_S

    def _begin(self, job: JobSpec) -> None:
        """A new plan, a new owner's name, and nothing remembered of an earlier spec."""
        self.job = job
        self._phase: Phase = "opening" if job.desired == "running" else "paused"
        self._then = self._phase
        self._next = None
        self._reason = ""
        # A run that has reached its end, or whose window has closed.
        self._finished = False
        # The code of a refused first start.
        self._refusal = ""
        until: int | None = None
        agenda = Agenda(None)
        try:
            settings = FlowSpec.build(
                source=job.source, target=job.target, properties=job.properties
            ).settings
            until = settings.run_until_ms
            if settings.refresh_topics_enabled:
                agenda = Agenda(settings.refresh_topics_interval_seconds)
        except InvalidSettings as error:
            self._fail(error.message)
        host, wake = self._host, self._wake.set
        self._board = Board(job, int(time.time() * 1000))
        self._copying = Copying(job, host.control, host.jobs, self._board, wake, lane=host.lane)
        self._office = Office(
            job, agenda, host.slots, self._board, self._copying, wake, until=until
        )

    def _step(self, now: float) -> None:
        while self.unheard:
            self._obey(self.unheard.pop(0), now)
        self._copying.harvest(int(time.time() * 1000))
        for event in self._office.step(self._phase, now):
            self._meet(event, now)
        if self._phase == "copying":
            self._copy(now)
        elif self._phase == "resting":
            self._rest(now)
        if self._told.is_due(self._verdict(), self._board, now, has_news=self._copying.has_news):
            self._report(now)
        if self._phase in ("failed", "stopped"):
            # Nothing is copied any more, but the last word may wait long for room on a disk.
            self._host.slots.release(self.job.flow)

    def _obey(self, wanted: JobSpec | None, now: float) -> None:
        if wanted is None:
            self._reason = self._parting
            self._leave("stopped", now)
        elif (
            # An edit that is still being taken up may be the one that this one takes back.
            self._next is not None or self._phase == "failed" or not _is_same_work(wanted, self.job)
        ):
            self._next = wanted
            self._leave("opening", now)
        else:
            if wanted.decisions != self.job.decisions:
                self._office.agenda.want("plan")
            self.job = self._board.job = self._copying.job = wanted
            if wanted.desired == "paused" and self._phase in ("opening", "copying"):
                self._leave("paused", now)
            elif wanted.desired == "running" and self._then == "paused":
                self._resume()

    def _leave(self, then: Phase, now: float) -> None:
        self._then, self._phase = then, "resting"
        self._rest_until = now + OBEY_S
        self._last_copy = None
        self._copying.order("stop")

    def _resume(self) -> None:
        self._then = "opening"
        self._phase = "copying" if self._office.is_planned else "opening"
        self._office.agenda.want("look")
        self._copying.forgive()

    def _meet(self, event: Event, now: float) -> None:
        if event == "opened" and self._phase == "opening":
            self._phase = "copying"
        elif event == "refused":
            self._fail(self._office.refusal)
        elif event == "not_started" and self._office.not_started is not None:
            self._reason = self._office.not_started.message
            self._refusal = self._office.not_started.code
            self._leave("stopped", now)
        elif event == "lost":
            self._reason = (
                "Another runner has taken this flow over; nothing more is written from here. "
                "Make sure that only one control plane runs the flow, then start it again."
            )
            self._leave("failed", now)

    def _copy(self, now: float) -> None:
        wall = int(time.time() * 1000)
        if ended := self._board.ended(wall):
            self._reason = ended
            self._finished = True
            self._leave("stopped", now)
            return
        self._office.notice(now, wall)
        if not self._copying.fenced:
            self._copying.tend(wall)

    def _rest(self, now: float) -> None:
        """Wait for the slices, then for MM2's copy of their positions, then go where we go."""
        if not self._copying.is_idle:
            if now > self._rest_until:
                self._rest_until = now + OBEY_S
                self._copying.cancel()
            return
        if self._last_copy is None:
            self._last_copy = now
            # Who lost the flow knows nothing that its new owner does not know better.
            if self._then != "failed":
                self._office.copy_positions(now)
        if self._office.busy and now < self._last_copy + LAST_COPY_S:
            return
        if self._then != "opening":
            self._phase = self._then
        elif not self._office.busy and self._next is not None:
            self._office.close()
            self._host.slots.release(self.job.flow)
            self._begin(self._next)

    def _fail(self, reason: str) -> None:
        self._phase, self._reason = "failed", reason

    def _report(self, now: float) -> None:
        as_of = int(time.time() * 1000)
        self._board.held_back = self._copying.held_back(as_of)
        state, reason = self._verdict()
        self._copying.has_news = False
        status = self._board.status(state, reason, self._copying.statuses(as_of), as_of)
        is_over = self._finished and state == "stopped"
        refusal = self._refusal if state == "stopped" else ""
        status = dataclasses.replace(status, finished=is_over, refusal=refusal)
        self._told.write(self.job, status, now)

    def _verdict(self) -> tuple[JobState, str]:
        troubles = (*self._office.trouble.values(), *self._copying.troubles())
        standing = Standing(
            phase=self._phase,
            then=self._then,
            reason=self._reason,
            troubles=(*troubles, *self._board.troubles()),
            is_under_way=self._copying.is_under_way,
            held_back=self._board.held_back,
            has_partitions=self._board.has_partitions,
        )
        return verdict(standing)


def _is_same_work(one: JobSpec, other: JobSpec) -> bool:
    """Whether only what running slices can be told differs: then nothing has to be planned anew."""
    same = (one.job, one.source, one.target) == (other.job, other.source, other.target)
    return same and is_live_edit(one.properties, other.properties)

"""Random events: a flow and its jobs take exactly the declared transitions."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from mirrors.domain.runners.job_files import JobSpec, JobStatus
from mirrors.domain.runners.reconciler import Decision, Runner, decide, next_observed
from mirrors.domain.runners.restarts import JobRow
from mirrors.domain.states.flows import DESIRED, JOB, OBSERVED
from tests.domain.test_restarts import MINUTE, NOW, SECOND
from tests.domain.test_supervision import DEAD, runner, spec, status

FLOWS, STEPS = 1_500, 60
ENDED = ("stopped", "failed")


class Simulation:
    """One flow as the reconciler's service keeps it, and what happens around it."""

    def __init__(self, chance: random.Random, taken: dict[str, set[tuple[str, str]]]) -> None:
        self.chance, self.taken = chance, taken
        self.now = NOW
        self.observed, self.desired = "draft", "stopped"
        self.jobs: list[JobRow] = []
        self.generation, self.forgiven = 1, 0
        self.restart_wanted = False
        self.spec: JobSpec | None = None
        self.status: JobStatus | None = None
        self.runner: Runner = DEAD

    def open_job(self) -> JobRow | None:
        return next((job for job in self.jobs if job.ended_at is None), None)

    def observe(self, state: str) -> None:
        self.taken["flow"].add((self.observed, state))
        self.observed = state

    def want(self, state: str) -> None:
        self.taken["wish"].add((self.desired, state))
        self.desired = state

    def change_job(self, state: str, *, ended: bool) -> None:
        job = self.open_job()
        assert job is not None
        self.taken["job"].add((job.state, state))
        at = self.now if ended else None
        self.jobs[self.jobs.index(job)] = dataclasses.replace(job, state=state, ended_at=at)

    def command(self) -> None:
        """What a person, a failover, a schedule or an error does."""
        match self.chance.randrange(10):
            case 0 | 1 | 2:  # start
                self.forgiven = self.now
                self.want("running")
            case 3:  # the flow back is reversed: this one starts, and its failures still count
                self.want("running")
            case 4 if self.desired != "stopped":
                self.want(self.chance.choice(["paused", "running"]))
            case 5:
                self.want("stopped")
            case 6:
                self.generation += 1
            case 7:
                self.restart_wanted = self.open_job() is not None
            case 8 if self.desired == "stopped":
                self.observe("failed_over")
            case 9:
                self.observe("degraded")

    def report(self) -> None:
        """The runner and its status files change, or are old."""
        chance, job = self.chance, self.open_job()
        states = ["ready", "ready", "starting", "stopping"]
        silent = chance.choice([0, 0, 0, 200 * SECOND])
        if (luck := chance.random()) < 0.3:
            alive = runner(chance.choice(states), silent=silent)
            seen = dataclasses.replace(alive.status, as_of=self.now - silent)  # type: ignore[type-var]
            self.runner = dataclasses.replace(
                alive,
                status=seen if chance.random() < 0.9 else None,
                started_at=self.now - chance.choice([SECOND, MINUTE, 5 * MINUTE]),
                has_flow=chance.random() < 0.5,
            )
        elif luck < 0.4:
            failed = chance.choice([0, 5])
            self.runner = Runner(alive=False, started_at=self.now, failed_starts=failed)
        if job is None or chance.random() < 0.2:
            return
        old = chance.choice([0, 0, 0, 20 * SECOND, 300 * SECOND])
        state = chance.choice(["starting", "running", "degraded", "paused", *ENDED])
        facts: dict[str, Any] = {"as_of": self.now - old}
        if state == "stopped":
            refused = chance.random() < 0.3
            facts |= {"refusal": "mm2"} if refused else {"finished": chance.random() < 0.5}
        self.status = dataclasses.replace(status(state, job=job.id), **facts)

    def reconcile(self) -> bool:
        """One step of `services.flows.reconciler`; True when more may follow at once."""
        job, own = self.open_job(), self.status
        if job is None:
            self.spec = None
        if job and own and own.job == job.id and own.state not in ENDED:
            self.change_job(own.state, ended=False)
        leaves = job is not None and (self.desired == "stopped" or self.restart_wanted)
        counted = [j for j in self.jobs if j.ended_at is None or j.started_at >= self.forgiven]
        decision = decide(
            desired="stopped" if leaves else self.desired,  # type: ignore[arg-type]
            generation=self.generation,
            jobs=counted,
            runner=self.runner,
            spec=self.spec,
            status=own,
            now=self.now,
        )
        self.store(decision, job, leaves)
        return self.act(decision)

    def store(self, decision: Decision, job: JobRow | None, leaves: bool) -> None:
        state = next_observed(
            decision,
            observed=self.observed,
            desired=self.desired,
            has_job=job is not None,
            leaves=leaves,
        )
        if decision.job_ends is not None:
            self.change_job(decision.job_ends, ended=True)
            self.restart_wanted = False
        if state is not None:
            self.observe(state)
        if decision.finished:
            self.want("stopped")

    def act(self, decision: Decision) -> bool:
        match decision.action:
            case "write_spec":
                if (job := self.open_job()) is None:
                    number = len(self.jobs) + 1
                    job = JobRow(id=number, generation=1, state="starting", started_at=self.now)
                    self.jobs.append(job)
                self.spec = spec(job.id, self.generation, self.desired)
            case "remove_spec":
                self.spec = None
            case "start_runner":
                self.runner = Runner(alive=True, started_at=self.now)
            case "replace_runner":
                self.runner = DEAD
            case _:
                return decision.job_ends is not None
        return True

    def turn(self) -> None:
        self.now += self.chance.choice([100, 3 * SECOND, 40 * SECOND, 15 * MINUTE])
        while self.chance.random() < 0.5:
            self.command()
        self.report()
        for _ in range(4):
            if not self.reconcile():
                return


def test_random_events_take_exactly_the_declared_transitions() -> None:
    chance = random.Random(5)  # the same events in every run
    taken: dict[str, set[tuple[str, str]]] = {"flow": set(), "job": set(), "wish": set()}
    for _ in range(FLOWS):
        simulation = Simulation(chance, taken)
        for _ in range(STEPS):
            simulation.turn()
    changes = {
        what: {(before, after) for before, after in pairs if before != after}
        for what, pairs in taken.items()
    }
    assert changes == {
        "flow": OBSERVED.transitions,
        "job": JOB.transitions,
        "wish": DESIRED.transitions,
    }

"""Decision after decision, the reconciler reaches a stable state from any start."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.runners.reconciler import Runner
from mirrors.domain.runners.restarts import JobRow
from tests.domain.cases import laws
from tests.domain.test_restarts import MINUTE, NOW, SECOND, ended
from tests.domain.test_supervision import DEAD, FRESH, JOB, runner, spec, status, step


def run_to_rest(facts: dict[str, Any], steps: int = 8) -> list[str]:
    """Act on each decision as the reconciler does, until it waits."""
    facts = dict(facts)
    taken = []
    for _ in range(steps):
        decision = step(**facts)
        taken.append(decision.action)
        jobs = list(facts["jobs"])
        if decision.job_ends is not None:
            jobs = [
                dataclasses.replace(job, ended_at=NOW, state=decision.job_ends)
                if job.ended_at is None
                else job
                for job in jobs
            ]
        if decision.action == "write_spec":
            if all(job.ended_at is not None for job in jobs):
                jobs.append(JobRow(id=100 + len(jobs), generation=1, state="", started_at=NOW))
            facts["spec"] = spec(jobs[-1].id, facts["generation"], facts["desired"])
        elif decision.action == "remove_spec":
            facts["spec"] = None
        elif decision.action == "start_runner":
            facts["runner"] = Runner(alive=True, started_at=NOW)
        elif decision.action == "replace_runner":
            facts["runner"] = DEAD
        facts["jobs"] = jobs
        if decision.action in {"wait", "back_off", "give_up"} and decision.job_ends is None:
            return taken
    raise AssertionError(f"did not come to rest: {taken}")


def test_a_killed_runner_is_replaced_in_one_pass() -> None:
    facts = {"desired": "running", "generation": 1, "jobs": [JOB], "runner": DEAD,
             "spec": spec(), "status": status()}  # fmt: skip
    assert run_to_rest(facts) == ["write_spec", "start_runner", "wait"]


STATES = st.sampled_from(["starting", "running", "degraded", "paused", "failed", "stopped"])


@laws
@given(
    desired=st.sampled_from(["running", "paused", "stopped"]),
    jobs=st.sampled_from([[], [JOB], [ended("failed", 5 * SECOND)],
                          [ended("lost", 5 * SECOND), JOB]]),
    seen=st.sampled_from([DEAD, FRESH, runner(), runner("stopping"), runner(silent=MINUTE)]),
    disk=st.sampled_from([None, spec(), spec(6), spec(generation=2), spec(desired="paused")]),
    state=st.none() | STATES,
    whose=st.sampled_from([6, 7]),
    silent=st.sampled_from([0, 20 * SECOND, 300 * SECOND]),
    generation=st.sampled_from([1, 2]),
)  # fmt: skip
def test_whatever_is_found_a_few_steps_come_to_rest(
    desired: str, jobs: list[JobRow], seen: Runner, disk: JobSpec | None, state: str | None,
    whose: int, silent: int, generation: int,
) -> None:  # fmt: skip
    found = None if state is None else status(state, job=whose, silent=silent)
    facts = {"desired": desired, "generation": generation, "jobs": jobs, "runner": seen,
             "spec": disk, "status": found}  # fmt: skip
    assert len(run_to_rest(facts)) <= 5

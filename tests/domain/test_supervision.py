"""The reconciler's next step, for every state of a flow and its runner."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mirrors.domain.runners.job_files import JobSpec, JobStatus, RunnerStatus
from mirrors.domain.runners.reconciler import Decision, Runner, decide
from mirrors.domain.runners.restarts import JobRow
from tests.domain.cases import cluster
from tests.domain.test_restarts import MINUTE, NOW, SECOND, ended

JOB = JobRow(id=7, generation=1, state="running", started_at=NOW - 5 * SECOND)


def runner(state: str = "ready", *, silent: int = 0, **fields: Any) -> Runner:
    status = RunnerStatus(
        name="r", host="h", pid=1, start_tick=1, state=state, reason="", master="local",
        slots=4, slots_used=0, application_id=None, started_at=NOW - MINUTE, as_of=NOW - silent,
    )  # fmt: skip
    return Runner(**{"alive": True, "status": status, "started_at": NOW - 5 * MINUTE} | fields)


DEAD = Runner(alive=False, started_at=NOW - 5 * MINUTE)
FRESH = Runner(alive=True, started_at=NOW - SECOND)


def test_a_run_that_has_reached_its_end_is_stopped_for_good() -> None:
    own = dataclasses.replace(status("stopped", reason="Reached the ends."), finished=True)
    for process in (runner(), DEAD):
        decision = step(status=own, runner=process)
        assert (decision.action, decision.observed) == ("remove_spec", "stopped")
        assert (decision.job_ends, decision.finished) == ("stopped", True)
        assert decision.reason == "Reached the ends."
    assert not step(status=dataclasses.replace(own, job=6)).finished, "of an earlier job"


def test_a_run_that_ends_while_somebody_pauses_it_is_over_and_the_flow_stays_paused() -> None:
    own = dataclasses.replace(status("stopped", reason="Reached the ends."), finished=True)
    for process in (runner(), DEAD):
        decision = step(desired="paused", status=own, runner=process)
        assert (decision.action, decision.observed) == ("remove_spec", "paused")
        assert (decision.job_ends, decision.finished) == ("stopped", False)


def test_a_refused_first_start_fails_and_is_not_tried_again() -> None:
    own = dataclasses.replace(status("stopped", reason="Not started: ..."), refusal="mirrormaker2")
    decision = step(status=own, runner=runner())
    assert (decision.action, decision.observed) == ("remove_spec", "failed")
    assert (decision.job_ends, decision.finished) == ("failed", True)
    assert decision.reason == "Not started: ..."


def test_what_a_runner_does_not_count_as_trouble_degrades_a_flow_that_copies() -> None:
    well = step(status=status("running"), runner=runner(), concern="Another producer writes.")
    assert (well.observed, well.reason) == ("degraded", "Another producer writes.")
    ill = status("degraded", reason="A broker is away.")
    both = step(status=ill, runner=runner(), concern="Another producer writes.")
    assert both.reason == "A broker is away. Another producer writes."
    starting = step(status=status("starting"), runner=runner(), concern="Another producer writes.")
    assert starting.observed == "starting"


def spec(job: int = 7, generation: int = 1, desired: str = "running") -> JobSpec:
    return JobSpec(
        job=job, flow=3, name="a->b", generation=generation, desired=desired,
        source=cluster("a"), target=cluster("b"), properties={},
    )  # fmt: skip


def status(state: str = "running", *, job: int = 7, silent: int = 0, reason: str = "") -> JobStatus:
    return JobStatus(
        job=job, flow=3, generation=1, state=state, reason=reason, started_at=NOW,
        as_of=NOW - silent,
    )  # fmt: skip


def step(**facts: Any) -> Decision:
    given = {
        "desired": "running", "generation": 1, "jobs": [JOB], "runner": runner(), "spec": spec(),
        "status": status(), "now": NOW,
    }  # fmt: skip
    return decide(**given | facts)


@pytest.mark.parametrize(
    ("what", "facts", "action", "observed", "job_ends"),
    [
        # Wanted: running.
        ("a new flow", {"jobs": [], "spec": None, "status": None},
         "write_spec", "starting", None),
        ("a new flow without a runner", {"jobs": [], "spec": None, "status": None, "runner": DEAD},
         "write_spec", "starting", None),
        ("its job opened, spec not written yet", {"spec": None, "status": None},
         "write_spec", "starting", None),
        ("spec of an older job on disk", {"spec": spec(job=6), "status": None},
         "write_spec", "starting", None),
        ("spec written, no runner", {"status": None, "runner": DEAD},
         "start_runner", "starting", None),
        ("runner starts, no status yet", {"status": None, "runner": FRESH},
         "wait", "starting", None),
        ("runner ready, flow not taken up yet", {"status": None}, "wait", "starting", None),
        ("status of the job before", {"status": status("stopped", job=6)},
         "wait", "starting", None),
        ("runner ready, flow not taken up for long",
         {"status": None, "jobs": [dataclasses.replace(JOB, started_at=NOW - MINUTE)]},
         "wait", "degraded", None),
        ("starting", {"status": status("starting")}, "wait", "starting", None),
        ("all is well", {}, "wait", "running", None),
        ("a partition stopped", {"status": status("degraded", reason="1 of 9 stopped")},
         "wait", "degraded", None),
        ("settings were edited", {"generation": 2}, "write_spec", "running", None),
        ("the spec file vanished", {"spec": None}, "write_spec", "running", None),
        ("resumed", {"spec": spec(desired="paused"), "status": status("paused")},
         "write_spec", "paused", None),
        ("resuming", {"status": status("paused")}, "wait", "paused", None),
        ("it failed", {"status": status("failed", reason="no rights")},
         "remove_spec", "backing_off", "failed"),
        ("it failed and the runner died", {"status": status("failed"), "runner": DEAD},
         "remove_spec", "backing_off", "failed"),
        ("the runner was killed", {"runner": DEAD}, "write_spec", "starting", "lost"),
        ("the runner was killed while paused",
         {"desired": "paused", "spec": spec(desired="paused"), "status": status("paused"),
          "runner": DEAD}, "write_spec", "starting", "lost"),
        ("the runner stops by a signal",
         {"status": status("stopped"), "runner": runner("stopping")},
         "wait", "starting", None),
        ("the flow stopped by itself", {"status": status("stopped")},
         "write_spec", "starting", "lost"),
        ("the runner hangs", {"runner": runner(silent=31 * SECOND)},
         "replace_runner", "degraded", None),
        ("the runner is slow to start", {"status": None, "runner": runner("starting",
         silent=31 * SECOND)}, "wait", "starting", None),
        ("the runner never became ready", {"status": None, "runner": runner("starting",
         silent=121 * SECOND)}, "replace_runner", "degraded", None),
        ("the runner never wrote a status", {"status": None, "runner": Runner(alive=True,
         started_at=NOW - 121 * SECOND)}, "replace_runner", "degraded", None),
        ("the flow is silent for a while", {"status": status(silent=16 * SECOND)},
         "wait", "degraded", None),
        ("the flow is silent for long", {"status": status(silent=121 * SECOND)},
         "write_spec", "degraded", "lost"),
        # Wanted: paused.
        ("paused", {"desired": "paused"}, "write_spec", "running", None),
        ("pausing", {"desired": "paused", "spec": spec(desired="paused")},
         "wait", "running", None),
        ("is paused", {"desired": "paused", "spec": spec(desired="paused"),
                       "status": status("paused")}, "wait", "paused", None),
        ("paused before it ever ran",
         {"desired": "paused", "jobs": [], "spec": None, "status": None},
         "write_spec", "starting", None),
        # Wanted: stopped.
        ("stop asked", {"desired": "stopped"}, "remove_spec", "running", None),
        ("stopping", {"desired": "stopped", "spec": None, "runner": runner(has_flow=True)},
         "wait", "running", None),
        ("its flow ended in the runner without a word", {"desired": "stopped", "spec": None},
         "remove_spec", "stopped", "stopped"),
        ("stop asked before it was taken up", {"desired": "stopped", "status": None},
         "remove_spec", "starting", None),
        ("its runner has looked for specs since, and there was none",
         {"desired": "stopped", "status": None, "spec": None}, "remove_spec", "stopped", "stopped"),
        ("its runner has it, and says nothing of it yet",
         {"desired": "stopped", "status": None, "spec": None, "runner": runner(has_flow=True)},
         "wait", "starting", None),
        ("its runner has not looked since the spec was written",
         {"desired": "stopped", "status": None, "spec": None, "runner": runner(silent=4 * SECOND)},
         "wait", "starting", None),
        ("its runner starts yet",
         {"desired": "stopped", "status": None, "spec": None, "runner": runner("starting")},
         "wait", "starting", None),
        ("stop asked of a runner that hangs",
         {"desired": "stopped", "spec": None, "runner": runner(silent=31 * SECOND)},
         "replace_runner", "degraded", None),
        ("it has stopped", {"desired": "stopped", "spec": None, "status": status("stopped")},
         "remove_spec", "stopped", "stopped"),
        ("it failed while stopping", {"desired": "stopped", "status": status("failed")},
         "remove_spec", "stopped", "failed"),
        ("stop asked of a dead runner", {"desired": "stopped", "runner": DEAD},
         "remove_spec", "stopped", "stopped"),
        ("stopped", {"desired": "stopped", "jobs": [], "spec": None}, "wait", "stopped", None),
        ("stopped, a spec was left", {"desired": "stopped", "jobs": []},
         "remove_spec", "stopped", None),
    ],
)  # fmt: skip
def test_the_next_step_follows_from_what_is_seen(
    what: str, facts: dict[str, Any], action: str, observed: str, job_ends: str | None
) -> None:
    decision = step(**facts)
    assert (decision.action, decision.observed, decision.job_ends) == (action, observed, job_ends)
    assert decision.reason or decision.observed in {"running", "starting", "paused"}, what


def test_a_reason_of_the_runner_is_told_on() -> None:
    assert step(status=status("degraded", reason="1 of 9 stopped")).reason == "1 of 9 stopped"
    assert step(status=status("failed", reason="no rights")).reason == "no rights"


def test_the_first_restart_is_immediate_and_the_second_waits_two_minutes() -> None:
    nothing: dict[str, Any] = {"spec": None, "status": status("failed")}
    assert step(jobs=[ended("failed", MINUTE)], **nothing).action == "write_spec"
    twice = [ended("failed", 2 * MINUTE), ended("failed", MINUTE)]
    waits = step(jobs=twice, **nothing)
    assert (waits.action, waits.observed) == ("back_off", "backing_off")
    assert waits.retry_at == NOW + MINUTE
    assert waits.reason == "Failed 2 times in a row; restarts in 60 s."
    assert step(jobs=twice, now=NOW + MINUTE, **nothing).action == "write_spec"


def test_a_flow_that_waits_or_was_given_up_still_says_what_was_wrong() -> None:
    jobs = [
        dataclasses.replace(ended("failed", 2 * MINUTE), reason="No rights on primary."),
        dataclasses.replace(ended("failed", MINUTE), reason="No free slot."),
    ]
    facts: dict[str, Any] = {"jobs": jobs, "spec": None, "status": None}
    assert step(**facts).reason.endswith("restarts in 60 s. Last failure: No free slot.")
    assert step(**facts, most_failures=1).reason.endswith("is fixed. Last failure: No free slot.")


def test_a_limit_of_failures_gives_up_only_when_there_is_one() -> None:
    jobs = [ended("failed", (9 - number) * 1000 * MINUTE) for number in range(3)]
    facts: dict[str, Any] = {"jobs": jobs, "spec": None, "status": None}
    assert step(**facts).action == "write_spec"
    assert step(**facts, most_failures=3).action == "write_spec"
    gives_up = step(**facts, most_failures=2)
    assert (gives_up.action, gives_up.observed) == ("give_up", "failed")


def test_a_runner_that_dies_while_it_starts_waits_longer_each_time() -> None:
    dying = Runner(alive=False, started_at=NOW - 2 * SECOND, failed_starts=1)
    waits = step(runner=dying, status=None)
    assert (waits.action, waits.retry_at) == ("back_off", NOW + 3 * SECOND)
    assert step(runner=dying, status=None, now=NOW + 3 * SECOND).action == "start_runner"


def test_a_flow_that_keeps_killing_its_runner_is_slowed_down() -> None:
    killed = Runner(alive=False, started_at=NOW - SECOND)
    lost = [ended("lost", number * 20 * SECOND, 10 * SECOND) for number in (3, 2, 1)]
    assert step(runner=killed, status=None, jobs=[JOB, *lost[1:]]).action == "start_runner"
    waits = step(runner=killed, status=None, jobs=[JOB, *lost])
    assert (waits.action, waits.retry_at) == ("back_off", NOW + 4 * SECOND)

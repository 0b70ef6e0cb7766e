"""The phases of a flow: random orders and results take exactly the declared transitions."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirrors import launcher
from mirrors.domain.runners.job_files import JobSpec
from spark_runner.flow import lifecycle
from spark_runner.flow.lifecycle import FlowRun
from spark_runner.flow.operations import Event, Operations
from spark_runner.flow.runner_resources import RunnerResources
from spark_runner.flow.slice_supervisor import SliceSupervisor
from spark_runner.flow.state import PHASES, FlowFacts, visible_state
from spark_runner.ipc.driver_server import ControlServer
from spark_runner.slices.rotation import SlotRotation
from spark_runner.spark.slots import Slots
from spark_runner.status.flow import FlowProgress
from tests.spark.without_spark import job

STEPS = 20_000
EVENTS: tuple[Event, ...] = ("planned", "ownership_lost", "no_slots", "start_refused")
REFUSED = SimpleNamespace(message="MirrorMaker 2 runs.", code="mm2_runs")


@pytest.fixture
def chance(monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Kafka and Spark, played by a random generator: slices, operations, the end of the run."""
    chance = random.Random(7)  # the same orders in every run

    def step(operations: Operations, phase: str, now: float) -> list[Event]:
        operations.start_refused = REFUSED  # type: ignore[assignment]
        return [chance.choice(EVENTS)] if chance.random() < 0.3 else []

    def is_idle(_: SliceSupervisor) -> bool:
        return chance.random() < 0.5

    monkeypatch.setattr(Operations, "step", step)
    monkeypatch.setattr(Operations, "is_busy", property(lambda _: False))
    monkeypatch.setattr(Operations, "copy_positions", lambda *_: None)
    monkeypatch.setattr(SliceSupervisor, "is_idle", property(is_idle))
    monkeypatch.setattr(
        FlowProgress, "end_reason", lambda *_: "Reached the ends." if chance.random() < 0.1 else ""
    )
    monkeypatch.setattr(lifecycle, "COMMIT_S", 0.0)
    return chance


@pytest.fixture
def flow(tmp_path: Path, chance: random.Random) -> Iterator[FlowRun]:
    (tmp_path / launcher.FLOWS_DIR).mkdir()
    jobs: Any = SimpleNamespace(rotation=SlotRotation(), launch=None, cancel=lambda _: None)
    control = ControlServer("127.0.0.1", "127.0.0.1")
    resources = RunnerResources(tmp_path, control, jobs, Slots(lambda: 4), "raw")
    flow = FlowRun(dataclasses.replace(job(1), desired="running"), resources)
    flow._status_writer = SimpleNamespace(is_due=lambda *_, **__: False)  # type: ignore[assignment]
    yield flow
    flow._operations.close()
    control.close()


def another(chance: random.Random, spec: JobSpec) -> JobSpec:
    """The same work with another wish, or other work; sometimes with settings that are invalid."""
    desired = chance.choice(["running", "paused"])
    if chance.random() < 0.7:
        return dataclasses.replace(spec, desired=desired)  # type: ignore[arg-type]
    properties = {"tasks.max": chance.choice(["1", "2", "none"])}
    return dataclasses.replace(spec, job=spec.job + 1, desired=desired, properties=properties)  # type: ignore[arg-type]


def test_random_orders_take_exactly_the_declared_transitions(
    flow: FlowRun, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: set[tuple[str, str]] = set()
    enter = FlowRun._enter

    def recorded(run: FlowRun, phase: Any) -> None:
        before = run._phase
        enter(run, phase)
        taken.add((before, phase))

    monkeypatch.setattr(FlowRun, "_enter", recorded)
    for moment in range(STEPS):
        luck = chance.random()
        if luck < 0.2:
            flow.update(another(chance, flow.job))
        elif luck < 0.25:
            flow.stop("Stopped on request.")
        elif luck < 0.27:
            # What an internal error does, in any phase.
            flow._fail("Internal error.")
        flow._operations.is_planned = chance.random() < 0.5
        flow._step(float(moment))
    changes = {(before, after) for before, after in taken if before != after}
    assert changes == PHASES.transitions


def test_the_design_page_has_the_declared_phases() -> None:
    page = Path(__file__).parents[2] / "docs/design/states.md"
    assert PHASES.markdown() in page.read_text(encoding="utf-8")


DEAD = "Cluster west: cannot be reached."


def facts(**facts: Any) -> FlowFacts:
    usual: dict[str, Any] = {
        "phase": "copying",
        "next_phase": "copying",
        "reason": "",
        "problems": (),
        "is_copying": True,
        "throttle_reason": "",
        "has_partitions": True,
    }
    return FlowFacts(**{**usual, **facts})


@pytest.mark.parametrize("known", ["problems", "earlier_problems"])
def test_a_restart_does_not_hide_that_a_cluster_is_dead(known: str) -> None:
    restarting = facts(phase="committing", next_phase="taking_over", **{known: (DEAD, "More.")})
    state, reason = visible_state(restarting)
    assert state == "degraded"
    assert reason.startswith("Cluster west: cannot be reached (and 1 more). Committing")
    state, reason = visible_state(facts(phase="taking_over", **{known: (DEAD,)}))
    assert (state, DEAD in reason) == ("degraded", True)


def test_a_stop_and_a_healthy_restart_are_no_problem() -> None:
    stopping = facts(phase="committing", next_phase="stopped", problems=(DEAD,))
    assert visible_state(stopping) == ("running", "Committing; then it is stopped.")
    assert visible_state(facts(phase="committing", next_phase="taking_over"))[0] == "running"
    assert visible_state(facts(phase="taking_over"))[0] == "starting"
    # What was known before the restart is no problem of a flow that copies again.
    assert visible_state(facts(earlier_problems=(DEAD,))) == ("running", "")

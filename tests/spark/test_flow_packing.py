"""A flow packs its partitions again: it commits, takes itself over, and its counts go on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirrors import launcher
from mirrors.domain.flows.slice_packing import NOT_OBSERVED, OBSERVE_S, PackingVerdict
from mirrors.domain.runners.job_files import JobStatus, PartitionStatus
from spark_runner.flow import lifecycle
from spark_runner.flow.lifecycle import FlowRun
from spark_runner.flow.operations import Operations
from spark_runner.flow.runner_resources import RunnerResources
from spark_runner.flow.slice_balance import SliceBalance
from spark_runner.flow.slice_supervisor import SliceSupervisor
from spark_runner.ipc.driver_server import ControlServer
from spark_runner.slices.rotation import SlotRotation
from spark_runner.slices.throughput import Amount
from spark_runner.spark.slots import Slots
from spark_runner.status.job import job_status
from tests.spark.without_spark import job

DUE = PackingVerdict(state="due", reason="Slice 0 copies all.", ratio=2.0, best=1.0)
LATER = 100.0


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlowRun]:
    """A flow that copies and whose balance is judged at the next step."""
    (tmp_path / launcher.FLOWS_DIR).mkdir()
    monkeypatch.setattr(Operations, "step", lambda *_: ["planned"])
    monkeypatch.setattr(Operations, "is_busy", property(lambda _: False))
    monkeypatch.setattr(Operations, "copy_positions", lambda *_: None)
    monkeypatch.setattr(SliceSupervisor, "is_idle", property(lambda _: True))
    monkeypatch.setattr(SliceBalance, "is_due", lambda *_: True)
    jobs: Any = SimpleNamespace(rotation=SlotRotation(), launch=None, cancel=lambda _: None)
    control = ControlServer("127.0.0.1", "127.0.0.1")
    resources = RunnerResources(tmp_path, control, jobs, Slots(lambda: 4), "raw")
    flow = FlowRun(dataclasses.replace(job(1), desired="running"), resources)
    flow._status_writer = SimpleNamespace(is_due=lambda *_, **__: False)  # type: ignore[assignment]
    resources.slots.hold(flow.job.flow, 2)
    yield flow
    flow._operations.close()
    control.close()


def says(monkeypatch: pytest.MonkeyPatch, *verdicts: PackingVerdict) -> None:
    said = iter(verdicts)
    monkeypatch.setattr(
        SliceSupervisor, "judge_packing", lambda *_: next(said, NOT_OBSERVED)
    )  # fmt: skip


def copying(flow: FlowRun, monkeypatch: pytest.MonkeyPatch, *verdicts: PackingVerdict) -> None:
    says(monkeypatch, NOT_OBSERVED, *verdicts)
    flow._step(LATER)
    assert flow._phase == "copying"
    flow._progress.add_copied(Amount(records=7, bytes=70, partitions={("t", 0): (7, 70)}))


def test_the_same_job_goes_on_with_its_counts_and_its_slots(
    flow: FlowRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying(flow, monkeypatch, DUE)
    before, slots = flow._progress, flow._resources.slots.used
    flow._step(LATER + 1)
    assert (flow._phase, flow._next_phase) == ("committing", "taking_over")
    assert flow._balance.verdict == NOT_OBSERVED
    flow._step(LATER + 2)
    assert flow._phase == "taking_over"
    assert flow._progress is not before
    status = job_status(flow._progress, "starting", "", [], 1)
    assert (status.job, status.records, status.bytes) == (1, 7, 70)
    assert status.started_at == before.started_at
    assert flow._resources.slots.used == slots == 2
    flow._step(LATER + 3)
    assert flow._phase == "copying"
    assert flow._next_job is None


def test_a_pause_meanwhile_is_a_pause(flow: FlowRun, monkeypatch: pytest.MonkeyPatch) -> None:
    copying(flow, monkeypatch, DUE)
    flow._step(LATER + 1)
    flow.update(dataclasses.replace(flow.job, desired="paused"))
    flow._step(LATER + 2)
    assert flow._phase == "paused"
    assert flow._next_job is None


def test_an_edit_meanwhile_is_another_job(flow: FlowRun, monkeypatch: pytest.MonkeyPatch) -> None:
    copying(flow, monkeypatch, DUE)
    flow._step(LATER + 1)
    flow.update(dataclasses.replace(flow.job, job=2, properties={"tasks.max": "2"}))
    flow._step(LATER + 2)
    assert (flow._phase, flow.job.job) == ("taking_over", 2)
    assert job_status(flow._progress, "starting", "", [], 1).records == 0
    assert flow._resources.slots.used == 0


def test_a_bounded_run_keeps_its_slices(flow: FlowRun, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = dataclasses.replace(flow.job, job=2, properties={"run.until": "end"})
    copying(flow, monkeypatch)
    flow.update(spec)
    for second in range(1, 4):
        flow._step(LATER + second)
    assert (flow._phase, flow._may_pack) == ("copying", False)


@pytest.mark.parametrize(("rows", "lag"), [
    ([("in_sync", 0), ("syncing", 4000)], 4.0),
    ([("in_sync", 0), ("lagging", None)], None),
    # What is stopped waits for a person, and not for another packing.
    ([("in_sync", 0), ("gap", 9_000_000), ("faulted", None)], 0.0),
    ([], 0.0),
])  # fmt: skip
def test_the_lag_is_that_of_what_is_copied(
    rows: list[tuple[str, int | None]], lag: float | None
) -> None:
    found: Any = [SimpleNamespace(state=state, time_lag_ms=ms) for state, ms in rows]
    partitions: list[PartitionStatus] = found
    assert lifecycle._lag_s(partitions) == lag


def test_rates_count_after_they_were_observed_for_long_enough() -> None:
    balance = SliceBalance(0.0)
    balance.record({("t", 0): (1, 1000)}, 1.0)
    assert balance.rates(OBSERVE_S - 1) is None
    assert list(balance.rates(OBSERVE_S) or {}) == [("t", 0)]
    balance.packed(10.0, 77)
    assert balance.judge({}, 2, 0.0, 11.0).packed_at == 77


def test_the_status_carries_the_verdict_and_an_older_runner_s_has_none() -> None:
    status = JobStatus(
        job=1, flow=2, generation=1, state="running", reason="", started_at=1, as_of=2, packing=DUE
    )
    assert JobStatus.from_json(status.to_json()).packing == DUE
    older = json.loads(status.to_json())
    del older["packing"]
    assert JobStatus.from_json(json.dumps(older)).packing == NOT_OBSERVED

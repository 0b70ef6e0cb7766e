"""Calls of a flow to its clusters: failures are retried with backoff."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.flows.slice_packing import assign_slices
from spark_runner.flow.kafka_calls import KafkaCalls, MetadataChanges
from spark_runner.flow.operation_schedule import OperationSchedule
from spark_runner.flow.operations import GAP_RANGES_AGAIN_S, Operations
from spark_runner.flow.slice_balance import SliceBalance
from spark_runner.flow.slice_supervisor import SliceSupervisor
from spark_runner.flow.state import Phase
from spark_runner.ipc.driver_server import ControlServer
from spark_runner.ipc.messages import PartitionError
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.plan import Plan
from spark_runner.slices.rotation import SlotRotation
from spark_runner.spark.slots import Slots
from spark_runner.status.flow import FlowProgress
from spark_runner.status.partition import PartitionProgress
from spark_runner.status.source_offsets import LogOffsets
from tests.spark.lab import wait_for
from tests.spark.without_spark import job

NOON = 100_000.0


class SimulatedFlow:
    """An office whose flow has been planned; moments are handed in."""

    def __init__(self, control: ControlServer) -> None:
        spec, self.woken = job(1), threading.Event()
        jobs: Any = SimpleNamespace(rotation=SlotRotation(), launch=None)
        board = FlowProgress(spec, 0)
        self.slots = Slots(lambda: 4)
        self.agenda = OperationSchedule(None)
        self.copying = SliceSupervisor(
            spec, control, jobs, board, self.woken.set, SliceBalance(0.0), lane="raw"
        )
        self.office = Operations(
            spec, self.agenda, self.slots, board, self.copying, self.woken.set, until=None
        )
        self.office.is_planned = True

    @property
    def is_idle(self) -> bool:
        return not self.office.is_busy and not self.office.is_sampling

    def step(self, phase: Phase, now: float) -> None:
        """What is due is asked, answered and heard."""
        self.office.step(phase, now)
        wait_for(lambda: self.is_idle or self.woken.wait(0.01), seconds=10)
        self.woken.clear()
        self.office.step(phase, now)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedFlow]:
    monkeypatch.setattr(KafkaCalls, "detect_changes", lambda _: MetadataChanges(False, {}))
    control = ControlServer("127.0.0.1", "127.0.0.1")
    scene = SimulatedFlow(control)
    yield scene
    scene.office.close()
    control.close()


def answering(errors: Sequence[Exception]) -> tuple[Callable[..., bool], list[int]]:
    """An errand that fails with each of these in turn, then does well; and its calls, counted."""
    asked: list[int] = []

    def act(*_: Any) -> bool:
        asked.append(len(asked))
        if len(asked) <= len(errors):
            raise errors[len(asked) - 1]
        return True

    return act, asked


def test_positions_that_could_not_be_copied_for_mm2_are_copied_when_the_target_is_back(
    scene: SimulatedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    act, asked = answering([KafkaUnavailable("The target does not answer.")])
    monkeypatch.setattr(KafkaCalls, "copy_positions", act)
    scene.copying.has_new_positions = True
    scene.step("paused", NOON)
    assert scene.office.problems == {"positions": "The target does not answer."}
    scene.step("paused", NOON + 0.5)
    assert len(asked) == 1
    # Nothing has moved since: the flow was called degraded until something did.
    scene.step("paused", NOON + 1.1)
    assert (len(asked), scene.office.problems) == (2, {})
    scene.step("paused", NOON + 60)
    assert len(asked) == 2, "what is copied already is not copied again"


def test_a_plan_whose_slots_were_taken_meanwhile_is_made_anew_with_what_is_left(
    scene: SimulatedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {("t", 0): 0}
    asked: list[tuple[int, dict[TopicPartition, int]]] = []

    def plan(
        _: KafkaCalls,
        most: int,
        positions: dict[TopicPartition, int],
        slices: dict[TopicPartition, int],
        orders: PlanContext,
    ) -> Plan:
        asked.append((most, dict(slices)))
        if len(asked) == 2:
            assert scene.slots.hold(2, 2)
        found = before if len(asked) == 1 else {("t", number): 1 for number in range(4)}
        return Plan(
            source_cluster_id="", target_cluster_id="", positions_topic="", owner="",
            partitions={}, slices=assign_slices(found, most, slices), stopped={},
            topics=(), warnings=(),
        )  # fmt: skip

    monkeypatch.setattr(KafkaCalls, "plan", plan)
    scene.agenda.mark_started("look")
    scene.agenda.mark_started("ends")
    for now in (NOON, NOON + 10):
        scene.agenda.request("plan")
        scene.step("copying", now)
    assert asked == [(4, {}), (4, before)]
    scene.step("copying", NOON + 10.5)
    assert len(asked) == 2, "not without a pause"
    scene.step("copying", NOON + 11.1)
    assert asked[2:] == [(2, before)]
    assert scene.slots.used == 4
    scene.step("copying", NOON + 60)
    assert len(asked) == 3


def test_a_login_that_is_refused_is_not_tried_at_every_tick_while_a_flow_is_fenced(
    scene: SimulatedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = [KafkaRefused("The password is wrong.") for _ in range(100)]
    act, asked = answering(refused)
    monkeypatch.setattr(KafkaCalls, "is_owner", act)
    scene.agenda.mark_started("look")
    scene.agenda.mark_started("ends")
    scene.copying.is_fenced = True
    for second in range(60):
        scene.office.follow_up(NOON + second, 0)
        scene.step("copying", NOON + second)
    # At once, then 5, 15 and 30 seconds later.
    assert len(asked) == 4


def test_each_fence_is_looked_into_at_once_and_once(
    scene: SimulatedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    act, asked = answering([])
    monkeypatch.setattr(KafkaCalls, "is_owner", act)
    scene.agenda.mark_started("look")
    scene.agenda.mark_started("ends")
    for fence in (1, 2):
        scene.copying.is_fenced = True
        for tick in range(3):
            scene.office.follow_up(NOON + fence + tick / 10, 0)
            scene.step("copying", NOON + fence + tick / 10)
        assert not scene.copying.is_fenced
        assert len(asked) == fence


def test_a_gap_whose_source_did_not_answer_is_looked_up_again(scene: SimulatedFlow) -> None:
    """Without its numbers nobody can decide on it."""
    board, agenda = scene.office._progress, scene.agenda
    board.rows["t", 0] = PartitionProgress(5)
    board.errors["t", 0] = PartitionError(
        topic="t", partition=0, offset=5, state="gap", code="out_of_range", reason="It is gone."
    )
    asked = []
    for now in (NOON, NOON + 1, NOON + GAP_RANGES_AGAIN_S, NOON + GAP_RANGES_AGAIN_S + 1):
        scene.office.follow_up(now, 0)
        if agenda.is_due("plan", now):
            asked.append(now)
            agenda.mark_started("plan")
            agenda.mark_done("plan", now, is_busy=False)
    assert asked == [NOON, NOON + GAP_RANGES_AGAIN_S]


def test_the_source_is_sampled_while_a_call_to_the_target_waits(
    scene: SimulatedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    board, released = scene.office._progress, threading.Event()
    board.rows["t", 0] = PartitionProgress(5)
    monkeypatch.setattr(KafkaCalls, "is_owner", lambda _: released.wait(10))
    ends = iter((10, 20, 30))

    def sample(*_: Any) -> LogOffsets:
        end = {("t", 0): next(ends)}
        return LogOffsets(1_000, end, end)

    monkeypatch.setattr(KafkaCalls, "sample_offsets", sample)
    scene.agenda.mark_started("look")
    scene.agenda.mark_started("selected")
    scene.agenda.request("owner")

    def sampled() -> int | None:
        scene.office.step("copying", NOON)
        return board.rows["t", 0].end

    wait_for(lambda: sampled() == 10, seconds=10)
    assert scene.office.is_busy, "the call to the target still waits"
    # A plan is applied during the next sample, which may be of an earlier log.
    scene.agenda.request("ends")
    scene.office.step("copying", NOON)
    scene.office._is_sample_outdated = True
    wait_for(lambda: sampled() != 10, seconds=10)
    assert sampled() == 30
    assert scene.office.is_busy
    released.set()

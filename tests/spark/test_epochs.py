"""A slice's epochs over a real control connection, the Spark job played by a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from spark_runner.ipc.messages import Figures, SliceResult, SliceWork
from spark_runner.ipc.task_channel import Channel
from spark_runner.slices import rotation, run
from tests.spark.lab import wait_for
from tests.spark.simulated_slices import Flow, Stage


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(run, "SHORTEST_EPOCH_S", 2.0)
    monkeypatch.setattr(run, "HANDOVER_S", 0.7)
    monkeypatch.setattr(run, "FIRST_RETRY_S", 0.2)
    monkeypatch.setattr(rotation, "SLOT_S", 0.3)
    monkeypatch.setattr(rotation, "SHORTEST_TURN_S", 0.5)
    return Stage()


@pytest.fixture
def flow(stage: Stage) -> Iterator[Flow]:
    flow = Flow(stage)
    yield flow
    flow.run.order("stop")
    wait_for(lambda: (flow.run.collect(), flow.run.is_idle)[1], seconds=10)
    flow.control.close()


def test_a_successor_is_ready_before_and_copies_only_after_its_predecessor(
    flow: Flow, stage: Stage
) -> None:
    began = time.monotonic()
    flow.until(lambda: stage.copying == [1])
    flow.until(lambda: stage.copying == [2])
    assert time.monotonic() - began < 2.0
    assert stage.most_at_once == 1
    assert flow.run.is_copying


def test_a_successor_copies_while_the_result_of_its_predecessor_is_on_its_way(
    flow: Flow, stage: Stage
) -> None:
    stage.releasing = {1}
    reports: list[tuple[int, int]] = []

    def is_copied_by_the_successor() -> bool:
        reports.extend(
            (epoch, message.as_of) for epoch, message in flow.step() if isinstance(message, Figures)
        )
        return stage.copying == [2]

    wait_for(is_copied_by_the_successor, seconds=10, pause=0.01)
    assert flow.run.epochs()[0].work.epoch == 1
    assert stage.most_at_once == 1
    stage.may_end.set()
    wait_for(lambda: (is_copied_by_the_successor(), (2, 1) in reports)[1], seconds=10, pause=0.01)
    # The last report of the predecessor precedes the first one of the successor.
    assert reports == [(1, 1), (1, 2), (2, 1)]
    assert stage.begun == [1, 2]


def test_a_job_that_is_lost_after_its_last_commit_does_not_end_its_successor(
    flow: Flow, stage: Stage
) -> None:
    stage.releasing = stage.lost = {1}
    flow.until(lambda: stage.copying == [2])
    stage.may_end.set()
    flow.until(lambda: [epoch.work.epoch for epoch in flow.run.epochs()] == [2])
    assert stage.copying == [2]
    assert flow.run.reason == ""


def test_what_nobody_thought_of_is_tried_again_and_leaves_the_flow_to_its_orders(
    flow: Flow, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = stage.launch

    def breaks(work: SliceWork) -> SliceResult:
        if work.epoch == 1:
            raise UnboundLocalError("sockfile")
        return launch(work)

    monkeypatch.setattr(flow.run, "_launch", breaks)
    said: list[str] = []

    def goes_on() -> bool:
        said.append(flow.run.reason)
        return stage.copying == [2]

    flow.until(goes_on)
    assert "UnboundLocalError: sockfile" in "".join(said)


def test_an_outdated_epoch_is_followed_up_at_once(flow: Flow, stage: Stage) -> None:
    flow.until(lambda: stage.copying == [1])
    flow.is_outdated = lambda epoch: epoch.work.epoch < 3
    flow.until(lambda: stage.copying == [3], seconds=1.2)
    assert stage.most_at_once == 1


def test_a_successor_that_finds_no_slot_gets_that_of_its_predecessor(
    flow: Flow, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SLOT_S", 0.3)
    flow.run._length_s = 60
    stage.slots = threading.Semaphore(1)
    flow.until(lambda: stage.copying == [1])
    flow.is_outdated = lambda epoch: epoch.work.epoch < 2
    flow.until(lambda: stage.copying == [2], seconds=5)
    assert stage.most_at_once == 1
    assert "no slot" in flow.run.reason
    stage.slots.release()
    flow.is_outdated = lambda epoch: epoch.work.epoch < 3
    flow.until(lambda: stage.copying == [3], seconds=5)
    assert flow.run.reason == ""


def test_nobody_ends_for_a_successor_whose_task_starts_slowly(
    flow: Flow, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SLOT_S", 0.1)
    flow.run._length_s = 60
    flow.free_slots = 1
    stage.slots = threading.Semaphore(1)
    flow.until(lambda: stage.copying == [1])
    flow.is_outdated = lambda epoch: epoch.work.epoch < 2
    until = time.monotonic() + 1
    while time.monotonic() < until:
        flow.step()
        time.sleep(0.01)
    assert stage.copying == [1]
    assert flow.run.reason == ""
    stage.slots.release()
    flow.until(lambda: stage.copying == [2], seconds=5)


def test_a_task_that_starts_longer_than_an_epoch_lasts_is_not_started_again(
    flow: Flow, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the first one with rules, on a busy machine."""
    monkeypatch.setattr(run, "SLOT_S", 0.1)
    flow.run._length_s = 0.8
    stage.slots = threading.Semaphore(0)
    until = time.monotonic() + 1.6
    while time.monotonic() < until:
        flow.step()
        time.sleep(0.01)
    assert stage.begun == [1]
    assert not flow.run.epochs()[0].ordered
    stage.slots.release()


def test_a_successor_at_work_that_is_not_ready_ends_nobody(
    flow: Flow, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SLOT_S", 0.1)
    monkeypatch.setattr(Channel, "wait_for_turn", _as_when_kafka_is_away)
    flow.run._length_s = 60
    flow.until(lambda: stage.copying == [1])
    flow.is_outdated = lambda epoch: epoch.work.epoch < 2
    until = time.monotonic() + 1
    while time.monotonic() < until:
        flow.step()
        time.sleep(0.01)
    assert stage.copying == [1]


def _as_when_kafka_is_away(channel: Channel, deadline_s: float) -> bool:
    """Connected to the driver; of the clusters the first epoch alone has seen anything."""
    with channel._changed:
        channel._changed.wait_for(lambda: channel._turn or channel._order is not None, deadline_s)
    return channel._turn


def test_slices_take_turns_when_there_are_fewer_slots(flow: Flow, stage: Stage) -> None:
    other, shared = Flow(stage), rotation.SlotRotation()
    flow.run._length_s = other.run._length_s = 60
    stage.slots = threading.Semaphore(1)
    flow.until(lambda: stage.copying == [1])

    def stepped(one: Flow, two: Flow) -> bool:
        """Until it is the second one's turn."""
        for number, each in enumerate((flow, other)):
            each.step()
            shared.rotate(number, [each.run], time.monotonic())
        now = time.monotonic()
        return two.run.working_s(now) > 0 and one.run.working_s(now) == 0

    for _ in range(2):
        wait_for(lambda: stepped(flow, other), seconds=10, pause=0.01)
        assert shared.reason(0, time.monotonic()).startswith("Slices take turns")
        wait_for(lambda: stepped(other, flow), seconds=10, pause=0.01)
    assert shared.reason(0, time.monotonic() + 60) == ""
    flow.run.order("stop")
    other.run.order("stop")
    wait_for(lambda: (flow.run.collect(), other.run.collect(), other.run.is_idle)[2], seconds=10)
    other.control.close()


def test_a_slice_that_waits_for_a_slot_says_so(
    flow: Flow, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "WAITING_FOR_SLOT_S", 0.2)
    stage.slots = threading.Semaphore(0)
    flow.until(lambda: "waits for a Spark slot" in flow.run.problem(time.monotonic()))
    assert not flow.run.epochs()[0].is_unresponsive()
    flow.free_slots = 1
    assert "although Spark has a free slot" in flow.run.problem(time.monotonic())
    stage.slots.release()
    flow.until(lambda: stage.copying)
    assert flow.run.problem(time.monotonic()) == ""


def test_a_failure_is_tried_again_after_a_while_and_its_reason_shown(
    flow: Flow, stage: Stage
) -> None:
    stage.failing = {1, 2}
    flow.until(lambda: flow.run.is_waiting_to_retry)
    assert "The target is down. Retry in" in flow.run.reason
    began = time.monotonic()
    flow.until(lambda: stage.copying == [3])
    assert 0.5 < time.monotonic() - began < 2
    flow.until(lambda: flow.run.is_copying)
    assert not flow.run.is_waiting_to_retry


def test_a_successor_that_fails_is_not_tried_in_a_whirl(flow: Flow, stage: Stage) -> None:
    flow.until(lambda: stage.copying == [1])
    stage.failing = set(range(2, 100))
    until = time.monotonic() + 1.9
    while time.monotonic() < until:
        flow.step()
        time.sleep(0.01)
    assert len(stage.begun) < 8


def test_a_slice_with_nothing_to_copy_any_more_ends(flow: Flow, stage: Stage) -> None:
    flow.until(lambda: stage.copying == [1])
    flow.has_work = False
    flow.is_outdated = lambda _: True
    flow.until(lambda: flow.run.is_idle)
    assert stage.begun == [1]


def test_a_stop_ends_the_present_epoch_and_its_waiting_successor(flow: Flow, stage: Stage) -> None:
    flow.until(lambda: stage.copying == [1])
    flow.is_outdated = lambda epoch: epoch.work.epoch == 1
    flow.until(lambda: flow.run.successor is not None)
    flow.run.order("stop")
    wait_for(lambda: (flow.run.collect(), flow.run.is_idle)[1], seconds=5)
    assert stage.copying == []

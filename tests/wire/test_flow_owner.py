"""After fencing, a task checks who owns the flow and where its partitions are.

A driver that has lost the flow may start epochs before it knows. Its slices differ, so their
transactional ids fence no task that copies the same partitions.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

import pytest

from mirrors.domain.internal_topics.records import OWNER_KEY, Position, owner_value
from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.flow_writer import FlowWriter
from mirrors.kafka.producers.identity import ProducerLost
from spark_runner.engine.copy_loop import CopyLoop
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.recovery.position_reader import PositionReader
from spark_runner.ipc.messages import SliceResult, SliceWork
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import LANES, NOW
from tests.wire.world import Driver, Flow, Side, soon, unique

each_lane = pytest.mark.parametrize("lane", LANES)


def written(source: Side, target: Side) -> tuple[Flow, str]:
    """A flow that has not begun, with ten records before it."""
    topic = unique("owned")
    source.make(topic)
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", b"%d" % at) for at in range(10)])
    return flow, remote


def owned(flow: Flow, owner: str) -> Record:
    record = Record(0, NOW, OWNER_KEY, owner_value(owner))
    flow.target.write(flow.positions_topic, 0, [record])
    return record


def run(work: SliceWork, lane: str = "raw") -> SliceResult:
    driver = Driver(until=lambda driver: driver.position(work.partitions[0].topic, 0) >= 10)
    return LANES[lane]().run(work, driver)  # type: ignore[arg-type]


@each_lane
def test_who_lost_the_flow_copies_nothing_although_he_took_his_id(
    source: Side, target: Side, lane: str
) -> None:
    flow, remote = written(source, target)
    owned(flow, "mine")
    owned(flow, "another's")
    result = run(dataclasses.replace(flow.work(seconds=5), owner="mine"), lane)
    assert result.ended_because == "fenced", result
    assert target.ends(remote) == {0: 0}


@each_lane
def test_who_was_taken_for_dead_copies_nothing_while_somebody_writes_in_the_flows_name(
    source: Side, target: Side, lane: str
) -> None:
    flow, remote = written(source, target)
    owned(flow, "mine")
    work = dataclasses.replace(flow.work(seconds=5), owner="mine")
    FlowWriter(target.spec, work.spec.name).take_over(
        positions_topic=flow.positions_topic,
        runs_topic=flow.runs_topic,
        slices=1,
        deadline_s=20,
    )
    result = run(work, lane)
    assert result.ended_because == "fenced", result
    assert target.ends(remote) == {0: 0}


@each_lane
def test_the_owner_copies(source: Side, target: Side, lane: str) -> None:
    flow, remote = written(source, target)
    owned(flow, "another's")
    owned(flow, "mine")
    result = run(dataclasses.replace(flow.work(seconds=20), owner="mine"), lane)
    assert result.ended_because == "stop", result
    assert len(target.read(remote)) == 10


@each_lane
def test_positions_that_were_emptied_are_not_taken_for_a_flow_that_has_not_begun(
    source: Side, target: Side, lane: str
) -> None:
    flow, remote = written(source, target)
    result = run(dataclasses.replace(flow.work(seconds=5), owner="mine"), lane)
    assert (result.ended_because, result.code) == ("failed", "positions_missing"), result
    assert target.ends(remote) == {0: 0}


def test_who_inits_his_producer_again_asks_again(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, remote = written(source, target)
    owned(flow, "mine")

    def lost(self: CopyLoop, deadline: float) -> None:
        monkeypatch.undo()
        owned(flow, "another's")
        raise ProducerLost(Code.REQUEST_TIMED_OUT, "wait for the last replies")

    monkeypatch.setattr(CopyLoop, "_end_transaction", lost)
    result = run(dataclasses.replace(flow.work(seconds=5), owner="mine"))
    assert result.ended_because == "fenced", result
    assert target.read(remote) == []


def test_a_position_that_is_just_being_committed_is_waited_for(source: Side, target: Side) -> None:
    """A person's decision: the driver has said so, the markers are not written yet."""
    flow, remote = written(source, target)
    flow.copy()
    ((_, known),) = PositionReader(target.client, flow.positions_topic).read(soon()).items()
    assert isinstance(known, Position)
    again = dataclasses.replace(known, position=0, resets=1, next_downstream=None)
    decided = target.transaction(unique("planner"))
    decided.write(flow.positions_topic, 0, [Record(0, NOW, again.key, again.value)])
    later = threading.Timer(1.0, decided.end, kwargs={"commit": True})
    later.start()
    began = time.monotonic()
    driver: Any = Driver(until=lambda driver: driver.figures and driver.figures[-1].records >= 10)
    RawCopier().run(flow.work(seconds=6), driver)
    later.join()
    assert time.monotonic() - began > 1.0
    assert len(target.read(remote)) == 20


def test_a_position_that_is_of_others_is_not_waited_for(source: Side, target: Side) -> None:
    flow, remote = written(source, target)
    ours = flow.work().partitions[0]
    others = Position(
        topic=ours.topic,
        partition=1,
        position=7,
        source_cluster="a",
        source_topic_id="b",
        target_cluster="c",
        target_topic_id="d",
    )
    open_one = target.transaction(unique("other"))
    open_one.write(flow.positions_topic, 0, [Record(0, NOW, others.key, others.value)])
    result, _ = flow.copy(seconds=10)
    assert result.ended_because == "stop", result
    open_one.end(commit=False)
    assert len(target.read(remote)) == 10

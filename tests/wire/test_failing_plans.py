"""A plan that fails half-way leaves nothing undone that the next one does not do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import NewPartitions

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import Fenced, KafkaUnavailable
from mirrors.domain.gaps.lost_ranges import Choice, Decision
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from spark_runner.ipc.messages import PartitionError
from spark_runner.kafka_protocol.records import Record
from spark_runner.planning.end_offsets import EndOffsets
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.plan import Plan
from spark_runner.planning.planner import Planner
from spark_runner.positions.topic import read_positions
from spark_runner.positions.writer import PositionsWriter
from tests.spark.lab import wait_for
from tests.wire.stops import NOW
from tests.wire.world import Side, unique

NOTHING = PlanContext()


@pytest.fixture
def planner(source: Side, target: Side) -> Iterator[tuple[Planner, str]]:
    """Of a flow that was just taken over, and the one topic that it copies, with ten records."""
    topic = unique("planned")
    source.make(topic)
    write(source, topic, 10)
    alias = unique("src").replace(".", "")
    spec = ClusterSpec(alias=alias, bootstrap_servers=source.spec.bootstrap_servers)
    small = {"replication.factor": "1", "tasks.max": "4"}
    properties = {"topics": topic.replace(".", "\\."), **small}
    job = JobSpec(
        job=1, flow=1, name=f"{alias}->two", generation=1, desired="running",
        source=spec, target=target.spec, properties=properties,
    )  # fmt: skip
    planner = Planner(job, "tests")
    planner.take_over()
    yield planner, topic
    planner.close()


def write(side: Side, topic: str, count: int) -> None:
    side.write(topic, 0, [Record(0, NOW, b"k", b"v")] * count)


def plan(
    planner: Planner,
    orders: PlanContext,
    positions: dict[TopicPartition, int] | None = None,
    *,
    most: int = 1,
    slices: dict[TopicPartition, int] | None = None,
) -> Plan:
    return planner.plan(
        now=int(time.time() * 1000),
        most_slices=most,
        positions=positions or {},
        slices=slices or {},
        context=orders,
    )


def fails_late(patch: pytest.MonkeyPatch) -> None:
    """Once, the source is away when most is done."""
    find = EndOffsets.find

    def away(self: EndOffsets, *args: Any, **named: Any) -> Any:
        patch.setattr(EndOffsets, "find", find)
        raise KafkaUnavailable("The source is away.")

    patch.setattr(EndOffsets, "find", away)


def test_where_a_topic_begins_is_written_down_although_the_plan_that_met_it_failed(
    planner: tuple[Planner, str], target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    its, topic = planner
    fails_late(monkeypatch)
    with pytest.raises(KafkaUnavailable):
        plan(its, NOTHING)
    assert (topic, 0) in plan(its, NOTHING).partitions
    with Admin(target.spec) as admin:
        ledger = read_positions(admin, its.positions_topic, deadline_s=10)
    assert ledger.positions[topic, 0].position == 0


def test_a_plan_that_was_not_taken_up_holds_no_slice_for_what_it_found(
    planner: tuple[Planner, str], source: Side
) -> None:
    """Another flow had taken the slots meanwhile."""
    its, topic = planner
    taken_up = plan(its, NOTHING).slices
    with Admin(source.spec) as admin:
        admin.client.create_partitions([NewPartitions(topic, 4)])[topic].result(20)
    wait_for(lambda: plan(its, NOTHING, most=4, slices=taken_up).slice_count == 4, seconds=20)
    fewer = plan(its, NOTHING, most=2, slices=taken_up)
    ours = {tp for tp in fewer.slices if tp[0] == topic}  # heartbeats may be there too
    assert ours == {(topic, partition) for partition in range(4)}
    assert fewer.slice_count == 2
    assert set(fewer.slices.values()) == {0, 1}
    assert fewer.slices[topic, 0] == taken_up[topic, 0]


def test_who_still_owns_the_flow_gets_his_pen_back(
    planner: tuple[Planner, str], target: Side
) -> None:
    """Somebody took it, and died before he said that the flow is his."""
    its, topic = planner
    PositionsWriter(target.spec, its.positions_topic, its.spec.name).take_over(deadline_s=20)
    with pytest.raises(Fenced):
        plan(its, NOTHING)
    assert its.is_owner()
    assert (topic, 0) in plan(its, NOTHING).partitions


def test_who_no_longer_owns_the_flow_does_not(planner: tuple[Planner, str], target: Side) -> None:
    its, _ = planner
    other = PositionsWriter(target.spec, its.positions_topic, its.spec.name)
    other.take_over(deadline_s=20)
    other.write(owner="other", deadline_s=20)
    for _ in range(2):
        with pytest.raises(Fenced):
            plan(its, NOTHING)
        assert not its.is_owner()
    other.write(owner="other", deadline_s=20)


@pytest.mark.parametrize("choice", ["accept", "restart"])
def test_a_decision_is_told_of_although_the_plan_that_carried_it_out_failed(
    planner: tuple[Planner, str], source: Side, monkeypatch: pytest.MonkeyPatch, choice: Choice
) -> None:
    its, topic = planner
    tp = (topic, 0)
    plan(its, NOTHING)
    if choice == "accept":
        position, now = 2, 5
        admin = Admin(source.spec)
        gone = confluent_kafka.TopicPartition(topic, 0, now)
        admin.client.delete_records([gone])[gone].result(20)
    else:
        position, now = 7, 0
        admin = Admin(source.spec)
        admin.client.delete_topics([topic])[topic].result(20)
        time.sleep(0.5)
        source.make(topic)
        write(source, topic, 20)
    stands = {tp: position}
    # As the lane reports it: without numbers.
    found = plan(its, PlanContext(stopped={tp: lost(tp, position)}), stands)
    facts = found.stopped[tp].gap
    assert facts is not None
    decision = Decision(topic=topic, partition=0, choice=choice, facts=facts)
    orders = PlanContext(decisions=(decision,), stopped=found.stopped)
    fails_late(monkeypatch)
    with pytest.raises(KafkaUnavailable):
        plan(its, orders, stands)
    again = plan(its, orders, stands)
    assert tp in again.resumed
    assert again.partitions[tp].start == now
    # Heard of: what stops the partition from now on is something else.
    assert plan(its, PlanContext(decisions=(decision,)), {tp: 8}).resumed == frozenset()


def lost(tp: TopicPartition, position: int) -> PartitionError:
    return PartitionError(
        topic=tp[0],
        partition=tp[1],
        offset=position,
        state="gap",
        code="out_of_range",
        reason="",
    )

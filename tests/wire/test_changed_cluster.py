"""An alias now leads to another cluster: nothing is replicated."""

from __future__ import annotations

import dataclasses

import pytest

from mirrors.domain.errors import KafkaRefused
from mirrors.domain.gaps.lost_ranges import gap_of_generation
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol.metadata import id_text
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.epoch import RecordLane
from spark_runner.engine.recovery.position_reader import PositionReader
from spark_runner.ipc.messages import SliceWork
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import NOW
from tests.wire.world import Driver, Flow, Side, soon, unique

LANES = {"raw": RawCopier, "record": RecordLane}

each_lane = pytest.mark.parametrize("lane", LANES)


def copied(source: Side, target: Side) -> tuple[Flow, str, str]:
    """A flow that has copied three records, and then another one to be copied."""
    topic = unique("moved")
    source.make(topic)
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", b"%d" % at) for at in range(3)])
    flow.copy()
    source.write(topic, 0, [Record(0, NOW, b"k", b"3")])
    return flow, topic, remote


def leads_to(spec: ClusterSpec, side: Side) -> ClusterSpec:
    return dataclasses.replace(spec, bootstrap_servers=side.spec.bootstrap_servers)


def refusal(lane: str, work: SliceWork, driver: Driver) -> tuple[str, str]:
    """As the task that runs a lane makes it a result."""
    try:
        result = LANES[lane]().run(work, driver)  # type: ignore[arg-type]
    except KafkaRefused as error:
        return error.code, error.message
    return result.code, result.reason


@each_lane
@pytest.mark.parametrize("moved", ["source", "target"])
def test_an_alias_that_leads_elsewhere_since_the_plan_is_refused(
    source: Side, target: Side, lane: str, moved: str
) -> None:
    flow, topic, remote = copied(source, target)
    work = flow.work()
    # The same names are there too: only the cluster is another one.
    if moved == "source":
        target.make(topic)
        target.write(topic, 0, [Record(0, NOW, b"k", b"other")] * 9)
        work = dataclasses.replace(work, source=leads_to(work.source, target))
        planned, seen = source, target
    else:
        source.make(remote)
        work = dataclasses.replace(work, target=leads_to(work.target, source))
        planned, seen = target, source
    alias = getattr(work, moved).alias
    before = target.ends(remote)
    driver = Driver()
    code, reason = refusal(lane, work, driver)
    assert code == "generation"
    assert reason == (
        f"The alias {alias} now leads to cluster {seen.client.cluster_id} instead of "
        f"{planned.client.cluster_id}. Nothing is replicated until the flow is planned again."
    )
    assert driver.figures == []
    assert target.ends(remote) == before
    if moved == "target":
        assert source.ends(remote) == {0: 0}
        assert source.client.describe([flow.runs_topic], soon())[flow.runs_topic].error


@each_lane
def test_planned_anew_the_position_of_another_source_is_not_gone_on_from(
    source: Side, target: Side, lane: str
) -> None:
    flow, topic, remote = copied(source, target)
    other = target.make(topic)
    target.write(topic, 0, [Record(0, NOW, b"k", b"other")] * 9)
    work = dataclasses.replace(
        flow.work(seconds=10),
        source=leads_to(flow.spec, target),
        source_cluster_id=target.client.cluster_id,
        partitions=tuple(
            dataclasses.replace(row, topic_id=id_text(other.topic_id)) for row in flow.rows
        ),
    )
    stops(work, lane, target, remote, "source")
    assert kind(flow, work) == "source_replaced"


@each_lane
def test_planned_anew_the_position_of_another_target_is_not_gone_on_from(
    source: Side, target: Side, lane: str
) -> None:
    """The positions were carried along, as by a backup of the topics that is played back."""
    flow, _, _ = copied(source, target)
    flow.target, new = source, source
    old = dataclasses.replace(flow.work(seconds=10), target=new.spec)
    new.make(flow.positions_topic, cleanup_policy="compact")
    for record in target.read(flow.positions_topic):
        new.write(flow.positions_topic, 0, [record])
    rows = [
        dataclasses.replace(row, remote_topic_id=id_text(new.make(row.remote_topic).topic_id))
        for row in flow.rows
    ]
    work = dataclasses.replace(old, target_cluster_id=new.client.cluster_id, partitions=tuple(rows))
    stops(work, lane, new, rows[0].remote_topic, "target", at=0)
    assert kind(flow, work) == "target_replaced"


def stops(
    work: SliceWork, lane: str, target: Side, remote: str, moved: str, *, at: int = 3
) -> None:
    driver = Driver(until=lambda driver: any(row.errors for row in driver.figures))
    result = LANES[lane]().run(work, driver)  # type: ignore[arg-type]
    (error,) = result.errors
    assert (error.state, error.code, error.offset) == ("gap", "generation", 3)
    alias = getattr(work, moved).alias
    assert f"the alias {alias} now leads to another cluster" in error.reason
    assert result.records == 0
    assert len(target.read(remote)) == at


def kind(flow: Flow, work: SliceWork) -> str | None:
    """The gap that a plan makes of it."""
    reader = PositionReader(flow.target.client, flow.positions_topic)
    ((_, known),) = reader.read(soon()).items()
    (row,) = work.partitions
    now = Position(
        topic=row.topic,
        partition=0,
        position=known.position,
        source_cluster=work.source_cluster_id,
        source_topic_id=row.topic_id,
        target_cluster=work.target_cluster_id,
        target_topic_id=row.remote_topic_id,
    )
    facts = gap_of_generation(known, now)
    return facts and facts.kind

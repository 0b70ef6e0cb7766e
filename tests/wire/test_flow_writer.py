"""A writer to a stopped flow's topics first ends the transactions that hang there."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.internal_topics.records import Position
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.positions import count_slices, read_positions
from mirrors.kafka.producers.coordinator import Coordinator
from mirrors.kafka.producers.flow_writer import FlowWriter, ProducerRecord
from mirrors.kafka.producers.identity import ProducerIdentity
from mirrors.kafka.producers.transactions import plan_id
from spark_runner.kafka_protocol.records import Record
from spark_runner.positions.writer import PositionsWriter
from tests.wire.hanging import copied, is_stable, last_row, leave_open, moved, records
from tests.wire.world import Flow, Side, soon

each_end = pytest.mark.parametrize("commit", [True, False])
pytestmark = pytest.mark.usefixtures("trusting")


def writer_of(flow: Flow, *topic_partitions: tuple[str, int]) -> FlowWriter:
    return FlowWriter(flow.target.spec, flow.work().spec.name).take_over(
        positions_topic=flow.positions_topic,
        runs_topic=flow.runs_topic,
        slices=1,
        partitions=topic_partitions,
        deadline_s=20,
    )


def stands_at(flow: Flow, topic: str) -> int:
    with Admin(flow.target.spec) as admin:
        return (
            read_positions(admin, flow.positions_topic, deadline_s=10).positions[topic, 0].position
        )


def writer_producer(flow: Flow) -> Any:
    """The producer id of a flow writer."""
    name = plan_id(flow.work().spec.name)
    last = Coordinator(flow.target.client, name).describe(soon())
    assert last is not None
    return SimpleNamespace(transactional_id=name, producer_id=last.producer_id, epoch=last.epoch)


def written(flow: Flow, row: Record) -> ProducerRecord:
    return ProducerRecord(topic=flow.positions_topic, partition=0, key=row.key, value=row.value)


def write_both(pen: FlowWriter, flow: Flow, topic: str, *, commit: bool = True) -> None:
    """Five records and the position behind them, of which the records will have no marker."""
    remote = f"{flow.alias}.{topic}"
    with pen.transaction(deadline_s=20):
        leave_open(flow.target, writer_producer(flow), remote, records(5, b"orphan"))
        pen.send([written(flow, moved(flow, topic, 5))], deadline_s=20)
        if not commit:
            raise SimulatedCrash


class SimulatedCrash(Exception):
    pass


# Of version 1 only commits: with one epoch for all it is not known which transaction was aborted.
@pytest.mark.parametrize(("version", "commit"), [(1, True), (2, True), (2, False)])
def test_positions_that_a_dead_slice_left_without_an_end(
    source: Side, target: Side, version: int, commit: bool
) -> None:
    flow, topic, remote, _ = copied(source, target, "raw")
    slice_ = ProducerIdentity(
        target.client, flow.work().transactional_id, timeout_ms=60_000, most_version=version
    )
    slice_.fence(soon())
    leave_open(target, slice_, flow.positions_topic, [moved(flow, topic, 5)])
    slice_.add([(remote, 0)], soon())
    slice_.end(commit=commit, deadline=soon())
    writer_of(flow)
    assert stands_at(flow, topic) == (15 if commit else 10)
    assert is_stable(target, flow.positions_topic)


@each_end
def test_what_the_pen_before_left_without_an_end(source: Side, target: Side, commit: bool) -> None:
    flow, topic, remote, _ = copied(source, target, "raw")
    with contextlib.suppress(SimulatedCrash):
        write_both(writer_of(flow), flow, topic, commit=commit)
    assert not is_stable(target, remote)
    writer_of(flow, (remote, 0))
    assert is_stable(target, remote)
    assert stands_at(flow, topic) == (15 if commit else 10)
    assert len(target.read(remote)) == (15 if commit else 10)


def test_a_pen_whose_own_transaction_lacks_an_end_writes_no_more(
    source: Side, target: Side
) -> None:
    """What it aborted then would take along what was committed."""
    flow, topic, remote, _ = copied(source, target, "raw")
    pen = writer_of(flow)
    write_both(pen, flow, topic)
    pen._last_transaction.add((remote, 0))
    with pytest.raises(KafkaUnavailable, match="lacks the end"):
        write_both(pen, flow, topic)
    with contextlib.suppress(SimulatedCrash):
        write_both(writer_of(flow, (remote, 0)), flow, topic, commit=False)
    writer_of(flow, (remote, 0))
    assert len(target.read(remote)) == 15


@each_end
def test_what_a_driver_wrote_down_without_an_end(source: Side, target: Side, commit: bool) -> None:
    """A person's decision, say: the next driver reads it, or never knows of it."""
    flow, topic, remote, _ = copied(source, target, "raw")
    name = flow.work().spec.name
    driver = ProducerIdentity(target.client, plan_id(name), timeout_ms=60_000, most_version=1)
    driver.fence(soon())
    leave_open(target, driver, flow.positions_topic, [moved(flow, topic, 5)])
    driver.add([(remote, 0)], soon())
    driver.end(commit=commit, deadline=soon())
    writer = PositionsWriter(target.spec, flow.positions_topic, name)
    writer.take_over(deadline_s=20)
    writer.write(owner="me", deadline_s=20)
    assert is_stable(target, flow.positions_topic)
    assert last_row(target, flow.positions_topic, topic).position == (15 if commit else 10)


def test_positions_are_not_read_up_to_a_transaction_that_is_open_and_no_further(
    source: Side, target: Side
) -> None:
    flow, topic, _, _ = copied(source, target, "raw")
    row = moved(flow, topic, 5)
    open_one = target.transaction(flow.work().transactional_id)
    open_one.write(flow.positions_topic, 0, [row])
    with Admin(target.spec) as admin:
        with pytest.raises(KafkaUnavailable, match="open"):
            read_positions(admin, flow.positions_topic, deadline_s=1)
        assert count_slices(admin, flow.positions_topic, deadline_s=5) == 0
        open_one.end(commit=True)
        known = read_positions(admin, flow.positions_topic, deadline_s=10)
    assert isinstance(known.positions[topic, 0], Position)
    assert known.positions[topic, 0].position == 15

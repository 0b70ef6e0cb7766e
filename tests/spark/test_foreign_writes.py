"""Foreign records in remote partitions whose source is quiet are found as well."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.gaps.foreign_records import ForeignRange, unreported_ranges
from spark_runner.flow.kafka_calls import KafkaCalls
from spark_runner.kafka_protocol.records import Record
from spark_runner.status.foreign_records import ForeignRecordFinder, RemoteKey, RemotePartition
from spark_runner.status.partition import PartitionProgress
from tests.spark.lab import Lab, partition_row, wait_for
from tests.wire.sides import Side, unique


@pytest.fixture
def side(backup: str) -> Iterator[Side]:
    side = Side(unique("target"), backup)
    yield side
    side.close()


@pytest.fixture
def looks(side: Side) -> Iterator[ForeignRecordFinder]:
    looks = ForeignRecordFinder(side.spec)
    yield looks
    looks.close()


def some(count: int) -> list[Record]:
    return [Record(0, 1_000_000 + at, b"k", b"v%d" % at) for at in range(count)]


def test_what_grew_while_a_position_stood_is_found_at_the_look_after(
    side: Side, looks: ForeignRecordFinder
) -> None:
    topic = unique("quiet")
    view = side.make(topic)
    tp = ("t", 0, "")
    there = {tp: RemotePartition(topic, view.topic_id, 0, 7)}
    side.write(topic, 0, some(5))
    assert looks.find(there) == {}, "what was there before is no news"
    side.write(topic, 0, some(3))
    assert looks.find(there) == {}, "it may be a batch of this flow, whose position comes later"
    assert looks.find(there) == {tp: [ForeignRange(5, 7, 3)]}
    assert looks.find(there) == {}, "it is found once"


def test_where_the_next_batch_belongs_says_what_was_there_at_the_first_look(
    side: Side, looks: ForeignRecordFinder
) -> None:
    topic = unique("known")
    view = side.make(topic)
    tp = ("t", 0, "")
    side.write(topic, 0, some(5))
    there = {tp: RemotePartition(topic, view.topic_id, 0, 7, 2)}
    assert looks.find(there) == {}
    # The batch of five begins below that place and reaches beyond it.
    assert looks.find(there) == {tp: [ForeignRange(0, 4, 5)]}


def test_records_that_a_dead_copier_committed_unreported_are_of_this_flow(
    side: Side, looks: ForeignRecordFinder
) -> None:
    topic = unique("dead")
    view = side.make(topic)
    tp = ("t", 0, "")

    def there(position: int, epoch: int, reported_at: float) -> dict[RemoteKey, RemotePartition]:
        remote = RemotePartition(topic, view.topic_id, 0, position, None, epoch, reported_at)
        return {tp: remote}

    began = time.monotonic()
    looks.find(there(1, 1, began))
    # Its last batch; then it dies, and nothing follows for long.
    side.write(topic, 0, some(4))
    for _ in range(3):
        assert looks.find(there(1, 1, began)) == {}, "nothing was reported since"
    for _ in range(3):
        assert looks.find({}) == {}, "nothing copies"
    for _ in range(3):
        assert looks.find(there(5, 2, float("inf"))) == {}, "the next one knows the position"
    side.write(topic, 0, some(2))
    looks.find(there(5, 2, float("inf")))
    assert looks.find(there(5, 2, float("inf"))) == {tp: [ForeignRange(4, 5, 2)]}


def test_a_batch_of_this_flow_its_markers_and_aborted_ones_are_none(
    side: Side, looks: ForeignRecordFinder
) -> None:
    topic = unique("own")
    view = side.make(topic)
    tp = ("t", 0, "")

    def there(position: int) -> dict[RemoteKey, RemotePartition]:
        return {tp: RemotePartition(topic, view.topic_id, 0, position)}

    side.write(topic, 0, some(1))
    looks.find(there(1))
    side.write(topic, 0, some(4))
    looks.find(there(1))
    assert looks.find(there(5)) == {}, "its position moved"
    writer = side.transaction(unique("writer"))
    writer.write(topic, 0, some(2))
    writer.end(commit=False)
    for _ in range(3):
        assert looks.find(there(5)) == {}
    writer.write(topic, 0, some(2))
    for _ in range(3):
        assert looks.find(there(5)) == {}, "nobody knows yet whether it counts"
    writer.end(commit=True)
    # Its marker is written a moment after the commit.
    found = wait_for(lambda: looks.find(there(5)), what="the committed ones")
    assert [row.records for row in found[tp]] == [2]


def test_a_lane_that_finds_it_once_more_adds_only_what_is_new() -> None:
    row = PartitionProgress(0)
    row.add_foreign([ForeignRange(5, 7, 3)])
    row.add_foreign([ForeignRange(5, 9, 5)])
    assert list(row.foreign) == [ForeignRange(5, 7, 3), ForeignRange(8, 9, 2)]
    row.add_foreign([ForeignRange(8, 9, 2)])
    assert list(row.foreign) == [ForeignRange(5, 7, 3), ForeignRange(8, 9, 2)]
    row.add_foreign([ForeignRange(20, 20, 1)])
    assert list(row.foreign)[-1] == ForeignRange(20, 20, 1)
    # A route has offsets of its own.
    row.add_foreign([ForeignRange(20, 20, 1, "eu"), ForeignRange(20, 22, 3)])
    assert list(row.foreign)[-2:] == [ForeignRange(20, 20, 1, "eu"), ForeignRange(21, 22, 2)]
    assert unreported_ranges([ForeignRange(5, 9, 5), ForeignRange(1, 2, 2)], 8) == [
        ForeignRange(8, 9, 2)
    ]


def test_a_quiet_flow_reports_records_of_another_producer(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("quiet"))
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    lab.write_target(flow.remote(topic), ["foreign"] * 4)
    status = flow.wait(
        lambda status: (row := partition_row(status, topic)) is not None and row.strangers,
        seconds=60,
    )
    row = partition_row(status, topic)
    assert row is not None
    assert sum(stretch.records for stretch in row.strangers) == 4
    # The lane that writes behind them finds the same ones, which do not count twice.
    lab.write(topic, range(10, 13))
    flow.wait_in_sync(topic)
    status = flow.wait(lambda status: status.state == "running")
    row = partition_row(status, topic)
    assert row is not None
    assert sum(stretch.records for stretch in row.strangers) == 4
    flow.stop()


def test_records_of_a_commit_whose_answer_was_lost_are_not_taken_for_foreign(
    side: Side, looks: ForeignRecordFinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker died after the commit: the driver still has the old position."""
    topic = unique("lost-answer")
    view = side.make(topic)
    tp = ("t", 0, "")
    there = {tp: RemotePartition(topic, view.topic_id, 0, 0)}
    committed = {tp[:2]: 5}
    failures: list[Exception] = [KafkaUnavailable("No answer."), RuntimeError("a defect")]

    def committed_positions() -> dict[TopicPartition, int]:
        if failures:
            raise failures.pop()
        return dict(committed)

    planner = SimpleNamespace(committed_positions=committed_positions)
    monkeypatch.setattr(KafkaCalls, "planner", planner)
    calls = KafkaCalls.__new__(KafkaCalls)
    assert calls._confirmed(looks, there) == {}
    side.write(topic, 0, some(5))
    assert calls._confirmed(looks, there) == {}
    for error in (RuntimeError, KafkaUnavailable):
        with pytest.raises(error):
            calls._confirmed(looks, there)
    assert calls._confirmed(looks, there) == {}, "the target has another position than the driver"
    committed[tp[:2]] = 0
    assert calls._confirmed(looks, there) == {tp: [ForeignRange(0, 4, 5)]}, "and it is read again"

"""A topic of runs that lost its newest records: records without a run are not skipped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controlplane.demo.kafka.cluster import KafkaCluster
from mirrors.domain.offsets.runs import BlockKey, Run, pack, runs_topic
from mirrors.kafka.internal_topics.topic_tail import LogPosition, TopicReader
from mirrors.kafka.protocol.metadata import id_text
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.source.replicated_filter import OffsetRunsReader, ReplicatedFilter
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import NOW
from tests.wire.test_new_runs_topics import written_by
from tests.wire.test_unclean_elections import lose_the_newest, make
from tests.wire.world import Side, soon, unique


class Runs:
    """What another flow notes of a topic that we read: ten records a block."""

    def __init__(self, side: Side, make: Callable[[str], object]) -> None:
        self._side = side
        self.name = runs_topic(unique("other").replace(".", ""))
        self.partition = Partition("t", 0, "s.t", source_id=side.make(unique("read")).topic_id)
        make(self.name)

    def note(self, side: Side, *firsts: int) -> None:
        """These stretches were written by the other flow, each of ten records."""
        for first in firsts:
            side.write(self.name, 0, [Record(0, NOW, *self.block(first))])

    def block(self, first: int) -> tuple[bytes, bytes]:
        key = BlockKey("t", 0, "g", first, id_text(self.partition.source_id))
        return key.to_bytes(), pack(None, [Run(first, first, 10)]).blocks[0].to_bytes()

    def known(self, replicated: ReplicatedFilter) -> list[int]:
        """Where the stretches begin that it knows of now."""
        replicated._read_new_runs(soon())
        stretches = replicated._ranges[id_text(self.partition.source_id), 0]
        return [run.downstream for run in stretches.inside(0, 10_000)]


@pytest.mark.soak
@pytest.mark.timeout(600)
# The topic is shorter than before, just as long, and longer.
@pytest.mark.parametrize("later", [2, 5, 9])
def test_what_is_written_in_their_place_after_an_unclean_election_is_read(
    three: KafkaCluster, later: int
) -> None:
    side = Side("many", three.bootstrap)
    runs = Runs(side, lambda name: make(side, name))
    runs.note(side, 0, 10, 20)
    reader = Side("many", three.bootstrap)
    replicated = ReplicatedFilter(reader.client, [runs.partition])
    replicated.prepare(soon())
    assert runs.known(replicated) == [0, 10, 20]

    def lost_later() -> None:
        runs.note(Side("many", three.bootstrap), *range(100, 150, 10))
        assert runs.known(replicated) == [0, 10, 20, *range(100, 150, 10)]

    lose_the_newest(three, runs.name, lost_later)
    news = range(200, 200 + 10 * later, 10)
    runs.note(Side("many", three.bootstrap), *news)
    assert runs.known(replicated) == [0, 10, 20, *news]
    runs.note(Side("many", three.bootstrap), 900)
    assert runs.known(replicated) == [0, 10, 20, *news, 900]


def test_what_was_read_and_is_gone_counts_no_more_and_the_rest_is_read_anew(target: Side) -> None:
    runs = Runs(target, target.make)
    runs.note(target, 0, 10)
    replicated = ReplicatedFilter(target.client, [runs.partition])
    replicated.prepare(soon())
    assert runs.known(replicated) == [0, 10]
    # As if it had held three more.
    tail: OffsetRunsReader = replicated._tails[runs.name]
    assert tail._log.next_offset == 2
    tail._log.next_offset = 5
    replicated._add_run(runs.name, *runs.block(20), -1)
    runs.note(target, 30)
    assert runs.known(replicated) == [0, 10, 30]
    runs.note(target, 40)
    assert runs.known(replicated) == [0, 10, 30, 40]


def test_who_writes_runs_writes_nothing_without_and_a_copy_in_none_stops_its_partition(
    target: Side,
) -> None:
    runs = Runs(target, target.make)
    writer = target.transaction(unique("copier"))
    writer.write(runs.name, 0, [Record(0, NOW, *runs.block(0))])
    writer.end(commit=True)
    copier, foreign = writer.producer_id, 4712
    # A new reader knows it as well, without having seen an earlier run.
    for _ in range(2):
        replicated = ReplicatedFilter(target.client, [runs.partition])
        replicated.prepare(soon())
        torn = written_by(copier, runs.partition, at=52)
        stop_reason = replicated.find_replicated([torn])[runs.partition]
        assert (stop_reason.state, stop_reason.code, stop_reason.offset) == (
            "faulted",
            "runs_torn",
            52,
        )
        assert "the cluster has lost some" in stop_reason.reason
        assert replicated.find_replicated([written_by(copier, runs.partition, at=3)]) == {}
        assert runs.partition.skipped.found
        assert replicated.find_replicated([written_by(foreign, runs.partition, at=53)]) == {}
        # Of a transaction that was aborted no run is left, and nobody sees it.
        assert replicated.find_replicated([torn._replace(aborted=[(50, copier)])]) == {}
        assert replicated.find_replicated([torn._replace(aborted=[(60, copier)])]) != {}
        assert replicated.find_replicated([torn._replace(aborted=None)]) == {}


def test_whoever_writes_into_another_topic_of_runs_by_now_has_lost_none(target: Side) -> None:
    """A flow that was made again under its name, from another source, writes under its old id."""
    runs = Runs(target, target.make)
    writer = target.transaction(unique("copier"))
    writer.write(runs.name, 0, [Record(0, NOW, *runs.block(0))])
    replicated = ReplicatedFilter(target.client, [runs.partition])
    replicated.prepare(soon())
    later = runs_topic(unique("later").replace(".", ""))
    target.make(later)
    writer.write(later, 0, [Record(0, NOW, *runs.block(50))])
    writer.end(commit=True)
    assert replicated.find_replicated([written_by(writer.producer_id, runs.partition, at=52)]) == {}
    assert runs.partition.skipped.found


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_an_index_that_read_what_was_lost_begins_anew_though_the_topic_is_longer(
    three: KafkaCluster,
) -> None:
    side = Side("many", three.bootstrap)
    runs = Runs(side, lambda name: make(side, name))
    reader = TopicReader(side.spec)
    runs.note(side, 0, 10)
    first = reader.find(runs.name, LogPosition(), deadline_s=30)
    assert first is not None
    runs.note(side, 20)
    known = reader.find(runs.name, first.end_position, deadline_s=30)
    assert known is not None
    assert not known.is_other_log
    reader.close()

    def lost_later() -> None:
        nonlocal known
        runs.note(Side("many", three.bootstrap), 100, 110)
        reader = TopicReader(Side("many", three.bootstrap).spec)
        assert known is not None
        known = reader.find(runs.name, known.end_position, deadline_s=30)
        reader.close()

    lose_the_newest(three, runs.name, lost_later)
    runs.note(Side("many", three.bootstrap), *range(200, 250, 10))
    reader = TopicReader(Side("many", three.bootstrap).spec)
    found = reader.find(runs.name, known.end_position, deadline_s=30)
    reader.close()
    assert found is not None
    assert (found.is_other_log, found.start, found.end) == (True, 0, 8)

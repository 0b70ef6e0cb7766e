"""The index of offset runs: updated from the topics, rebuilt from them, and its translations."""

from __future__ import annotations

import dataclasses
import random
import time

import pytest
from confluent_kafka import TopicPartition
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets import runs
from mirrors.domain.offsets.runs import Run
from mirrors.domain.offsets.translation import Translation
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import NewRecord, append
from mirrors.kafka.protocol.metadata import id_text
from mirrors.models import Cluster, Flow, PartitionMap, RunIndex
from mirrors.services.offsets.retention.old_runs import flows_with_old_runs, retire_runs
from mirrors.services.offsets.run_index import refresh_index
from mirrors.services.offsets.translation import translate_offsets
from spark_runner.kafka_protocol.records import Record
from tests.domain.scanned import Copy
from tests.domain.test_offsets import copied, judge, runs_of
from tests.mirrors.maps import keep_map
from tests.pages import world as rows
from tests.wire.world import Flow as HandFlow
from tests.wire.world import Side, bare, soon, unique

pytestmark = pytest.mark.django_db


def flow_of(copy: HandFlow) -> Flow:
    """The row of a flow that is copied by hand."""
    target = copy.target.spec
    one, two = (
        Cluster.objects.create(alias=spec.alias, bootstrap_servers=spec.bootstrap_servers)
        for spec in (copy.spec, target)
    )
    return rows.flow(one, two)


def ask(flow: Flow, topic: str, *offsets: int, partition: int = 0) -> list[Translation]:
    return translate_offsets(flow=flow, partitions={(topic, partition): offsets})[topic, partition]


def write_some(side: Side, topic: str, chance: random.Random, batches: int) -> None:
    """Plain, committed and aborted batches."""
    writer = side.transaction(unique("index"))
    for at in range(batches):
        batch = [Record(0, 1_000_000 + at, b"k", b"%d" % at)] * chance.randrange(1, 4)
        if chance.random() < 0.4:
            side.write(topic, 0, batch)
        else:
            writer.write(topic, 0, batch)
            writer.end(commit=chance.random() < 0.6)
    time.sleep(0.3)


def brute_force(copy: HandFlow, topic: str) -> dict[int, int]:
    upstream = copy.source.read(topic)
    downstream = copy.target.read(f"{copy.alias}.{topic}")
    assert bare(downstream) == bare(upstream)
    return {above.offset: below.offset for above, below in zip(upstream, downstream, strict=True)}


def test_every_offset_is_translated_as_a_comparison_of_all_records_says(
    sides: tuple[Side, Side],
) -> None:
    topic, chance = unique("every"), random.Random(4)
    sides[0].make(topic, 1)
    copy = HandFlow(*sides, commit_interval_ms="20")
    copy.add(topic)
    flow = flow_of(copy)
    for batches in (12, 8):
        write_some(sides[0], topic, chance, batches)
        copy.copy()
        refresh_index(flow=flow)
        truth, (end,) = brute_force(copy, topic), copy.ends().values()
        last = max(truth.values()) + 1
        answers = ask(flow, topic, *range(end + 3))
        for upstream, answer in enumerate(answers[:end]):
            following = [down for up, down in sorted(truth.items()) if up >= upstream]
            assert answer.outcome == ("exact" if upstream in truth else "gap")
            assert answer.downstream == (following[0] if following else answer.downstream)
        assert [answer.outcome for answer in answers[end:]] == ["exact", "ahead", "ahead"]
        assert all((answer.downstream or 0) >= last for answer in answers[end:])
    # After deletion it is rebuilt to the same; a recreated topic is not mistaken for the old one.
    RunIndex.objects.all().delete()
    PartitionMap.objects.all().delete()
    assert {answer.outcome for answer in ask(flow, topic, 1, end)} == {"unknown"}
    refresh_index(flow=flow)
    assert ask(flow, topic, *range(end + 3)) == answers
    RunIndex.objects.update(runs_id="of another topic")
    refresh_index(flow=flow)
    assert ask(flow, topic, *range(end + 3)) == answers


def make_anew(side: Side, topic: str) -> None:
    Admin(side.spec).delete_topics([topic], deadline_s=20).raise_first()
    side.make(topic)


def begin_again(copy: HandFlow, topic: str) -> None:
    """As after an operator's decision: the position is of the topics as they are now."""
    [row] = copy.rows
    ids = [
        id_text(side.client.describe([name], soon())[name].topic_id)
        for side, name in ((copy.source, topic), (copy.target, row.remote_topic))
    ]
    copy.rows = [dataclasses.replace(row, topic_id=ids[0], remote_topic_id=ids[1])]
    position = Position(
        topic=topic,
        partition=0,
        position=0,
        source_cluster=copy.source.client.cluster_id,
        source_topic_id=ids[0],
        target_cluster=copy.target.client.cluster_id,
        target_topic_id=ids[1],
    )
    append(copy.target.spec, copy.positions_topic, [NewRecord(position.key, position.value, 0)])


def copied_again(copy: HandFlow, flow: Flow, topic: str) -> list[Translation]:
    copy.copy()
    refresh_index(flow=flow)
    answers = ask(flow, topic, 0, 1)
    assert [answer.outcome for answer in answers] == ["exact", "exact"]
    return answers


def test_runs_of_an_earlier_generation_stay_while_their_records_do_and_go_with_them(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    topic = unique("earlier")
    source.make(topic)
    copy = HandFlow(*sides, commit_interval_ms="20")
    remote = copy.add(topic)
    flow = flow_of(copy)
    records = [Record(0, 1_000_000, b"k", b"%d" % at) for at in range(3)]
    source.write(topic, 0, records)
    copied_again(copy, flow, topic)
    assert flows_with_old_runs() == []
    make_anew(source, topic)
    begin_again(copy, topic)
    source.write(topic, 0, records)
    answers = copied_again(copy, flow, topic)
    maps = PartitionMap.objects.filter(flow=flow)
    assert flows_with_old_runs() == [flow.pk]
    assert retire_runs(flow=flow) == 0, "the remote topic still holds their records"
    assert maps.count() == 2
    admin, tp = Admin(target.spec), TopicPartition(remote, 0, 3)
    admin.client.delete_records([tp])[tp].result(20)
    assert retire_runs(flow=flow) == 1
    assert maps.count() == 1
    assert ask(flow, topic, 0, 1) == answers
    # An index that is rebuilt from the topics does not bring them back.
    RunIndex.objects.all().delete()
    maps.delete()
    assert copied_again(copy, flow, topic) == answers
    assert not maps.filter(position__isnull=True, blocks__isnull=False)
    # Once the remote topic is another one, nothing can be asked of the one before.
    make_anew(target, remote)
    begin_again(copy, topic)
    answers = copied_again(copy, flow, topic)
    assert retire_runs(flow=flow) == 1
    assert maps.count() == 1
    assert ask(flow, topic, 0, 1) == answers


@pytest.mark.parametrize("back", [0, 3, 9])
def test_however_it_was_written_every_offset_is_translated_as_a_scan_says(
    back: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "BLOCK_RUNS", 3)
    flow, chance = rows.flow(), random.Random(back)
    for number in range(25):
        source = [chance.random() < 0.7 for _ in range(60)]
        written, position = copied(source, sorted(chance.sample(range(61), 4)), back)
        keep_map(flow, "t", number, runs_of(written), position=position, at_once=2)
        answers = ask(flow, "t", *range(position + 2), partition=number)
        judge(answers, [Copy(down, up) for down, up in written.items()], position)


def test_a_thousand_offsets_of_a_long_map_take_a_moment() -> None:
    flow = rows.flow()
    partitions = {}
    for number in range(4):
        found = [Run(at * 10, at * 9, 8) for at in range(100_000)]
        keep_map(flow, "t", number, found, position=1_000_000, at_once=100_000)
        partitions["t", number] = [at * 3989 for at in range(250)]
    started = time.perf_counter()
    with CaptureQueriesContext(connection) as asked:
        answers = translate_offsets(flow=flow, partitions=partitions)
    took = time.perf_counter() - started
    assert len(asked) < 12
    # A fifth of a second on a quiet machine.
    assert took < 1.0
    assert answers["t", 3][7] == Translation(upstream=27923, downstream=25131, outcome="exact")

"""The record lane's producer without Spark: its errors when it is fenced."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from mirrors.domain.errors import Fenced
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from spark_runner.engine.record_lane.producer import RecordProducer
from spark_runner.ipc.messages import PartitionWork, SliceWork
from tests.spark.lab import unique

CALLS: dict[str, Callable[[RecordProducer, PartitionWork], object]] = {
    "serve": lambda writer, _: writer.serve(),
    "flush": lambda writer, _: writer.flush(),
    "write": lambda writer, part: [write(writer, part, 100), writer.flush()],
    "commit": lambda writer, _: writer.commit([]),
    "abort": lambda writer, _: writer.abort(),
}


@pytest.fixture(scope="module")
def work(primary: str, backup: str) -> SliceWork:
    target = ClusterSpec(alias="backup", bootstrap_servers=backup)
    topic = unique("fenced")
    row = PartitionWork(
        topic=topic, topic_id="", partition=0, remote_topic=topic, remote_topic_id="", start=0
    )
    spec = NewTopicSpec(name=topic, partitions=1, replication_factor=1, configs={})
    with Admin(target) as admin:
        admin.create_topics([spec]).raise_first()
    return SliceWork(
        job=1,
        flow=1,
        generation=1,
        name="primary->backup",
        index=0,
        count=1,
        epoch=1,
        deadline=0,
        lane="record",
        source=ClusterSpec(alias="primary", bootstrap_servers=primary),
        target=target,
        properties={},
        source_cluster_id="",
        target_cluster_id="",
        positions_topic=topic,
        transactional_id=f"understudy.test.{topic}",
        partitions=(row,),
    )


def write(writer: RecordProducer, part: PartitionWork, count: int) -> None:
    for offset in range(count):
        writer.write(part, offset, b"k", b"v", 1000, None)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_writer_whose_id_was_taken_over_says_so_whichever_call_meets_it(
    work: SliceWork, call: Callable[[RecordProducer, PartitionWork], object]
) -> None:
    [part] = work.partitions
    ours, rival = (RecordProducer(work, is_urgent=lambda: False) for _ in range(2))
    ours.take_over(deadline_s=20)
    write(ours, part, 10)
    assert ours.flush() == []
    rival.take_over(deadline_s=20)
    write(ours, part, 10)
    # The refusal arrives while nobody looks.
    time.sleep(0.1)
    with pytest.raises(Fenced):
        until_fenced(ours, part, call)


def until_fenced(
    writer: RecordProducer,
    part: PartitionWork,
    call: Callable[[RecordProducer, PartitionWork], object],
) -> None:
    """As the lane goes on: the call, then the failures of its records, then a commit."""
    call(writer, part)
    for _ in range(3):
        write(writer, part, 1)
        writer.serve()
        if not writer.flush():
            writer.commit([])

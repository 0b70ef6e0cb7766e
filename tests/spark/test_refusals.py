"""What cannot be replicated stops its partition alone, with a reason, until it can be."""

from __future__ import annotations

import random
import time

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.runners.job_files import JobStatus, PartitionStatus
from tests.spark.lab import Flow, Lab, partition_row
from tests.spark.test_gaps import decide


def stopped_row(
    flow: Flow, topic: str, partition: int = 0, *, at: int | None, state: str = "faulted"
) -> PartitionStatus:
    """Until this partition stands stopped there, and the flow says that it is degraded."""

    def look(status: JobStatus) -> bool:
        row = partition_row(status, topic, partition)
        return row is not None and (row.state, row.position) == (state, at)

    status = flow.wait(lambda s: look(s) and s.state == "degraded")
    row = partition_row(status, topic, partition)
    assert row is not None
    return row


def test_a_refused_record_is_passed_by_when_a_person_says_so_and_nothing_else(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("passed"))
    lab.write(topic, ["before"])
    flow.start().wait_in_sync(topic)
    alter(lab, flow.remote(topic), max_message_bytes="20000")
    large = {"value": random.Random(1).randbytes(100_000)}
    lab.write(topic, ["1", large, "3", large, "5"], **{"linger.ms": 200})
    facts = in_the_way_of(flow, topic, at=2)
    assert (facts.lost, facts.count) == ((2, 2), 1)
    decide(flow, topic, "accept", facts)
    # The next one is another, of which nobody has decided.
    facts = in_the_way_of(flow, topic, at=4)
    assert [row[1] for row in lab.read(flow.remote(topic), target=True)[0]] == [
        b"before",
        b"1",
        b"3",
    ]
    # Tried again meanwhile, it is the same, and the decision is done.
    flow.restart()
    assert in_the_way_of(flow, topic, at=4) == facts
    decide(flow, topic, "accept", facts)
    flow.wait_in_sync(topic)
    flow.wait_state("running")
    lab.write(topic, ["6"])
    flow.wait_copied({(topic, 0): 7})
    kept = [row for row in lab.read(topic)[0] if row[1] != large["value"]]
    assert lab.read(flow.remote(topic), target=True)[0] == kept
    flow.stop()


def in_the_way_of(flow: Flow, topic: str, *, at: int) -> GapFacts:
    """What is refused there."""

    def look(status: JobStatus) -> bool:
        row = partition_row(status, topic)
        gap = None if row is None else row.gap
        return gap is not None and gap.position == at

    row = partition_row(flow.wait(lambda s: look(s) and s.state == "degraded"), topic)
    assert row is not None
    assert row.gap is not None
    assert (row.state, row.position, row.gap.kind) == ("faulted", at, "refused")
    return row.gap


def alter(lab: Lab, topic: str, **configs: str) -> None:
    entries = [
        ConfigEntry(k.replace("_", "."), v, incremental_operation=AlterConfigOpType.SET)
        for k, v in configs.items()
    ]
    resource = ConfigResource("topic", topic, incremental_configs=entries)
    lab.on_target.incremental_alter_configs([resource])[resource].result(20)


def test_a_record_too_large_stops_its_partition_alone_until_the_limit_is_raised(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("big"), 2)
    lab.write(topic, ["before"])
    flow.start().wait_in_sync(topic)
    alter(lab, flow.remote(topic), max_message_bytes="20000")
    lab.write(topic, [{"value": bytes(range(256)) * 4}], partition=1)
    # In one batch with its neighbours; random bytes, so that no codec makes it fit.
    large = {"value": random.Random(1).randbytes(100_000)}
    rows = [{"value": b"small"}, {"value": b"before"}, large, {"value": b"end"}]
    lab.write(topic, rows, **{"linger.ms": 200})
    row = stopped_row(flow, topic, at=3)
    for part in (
        topic,
        "offset 3",
        "max.message.bytes",
        flow.remote(topic),
        "exceeds the limit",
        "broker",
    ):
        assert part in row.reason
    flow.wait_copied({(topic, 1): 1})
    lab.write(topic, ["goes on"], partition=1)
    flow.wait_copied({(topic, 1): 2, (topic, 0): 3})
    alter(lab, flow.remote(topic), max_message_bytes="1048588")
    flow.wait_in_sync(topic, seconds=40)
    flow.wait_state("running")
    assert lab.read(flow.remote(topic), target=True) == lab.read(topic)
    flow.stop()


def test_a_record_without_key_for_a_compacted_topic_stops_its_partition_alone(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("keys"), 2)
    lab.write(topic, [{"key": b"k", "value": b"v"}])
    flow.start().wait_in_sync(topic)
    alter(lab, flow.remote(topic), cleanup_policy="compact")
    rows = [{"key": b"a", "value": b"1"}, {"value": b"no key"}, {"key": b"b"}]
    lab.write(topic, rows, **{"linger.ms": 200})
    row = stopped_row(flow, topic, at=2)
    for part in (topic, "offset 2", "compacted", "broker"):
        assert part in row.reason
    lab.write(topic, [{"key": b"k", "value": b"v"}], partition=1)
    flow.wait_copied({(topic, 1): 1})
    flow.stop()


def test_records_deleted_before_they_were_copied_are_a_gap_with_its_numbers(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("gap"), 2)
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    flow.change(desired="paused")
    flow.wait_state("paused")
    lab.write(topic, range(40))
    futures = lab.on_source.delete_records([TopicPartition(topic, 0, 30)])
    futures[TopicPartition(topic, 0)].result(20)
    flow.change(desired="running")
    row = stopped_row(flow, topic, at=10, state="gap")
    assert "10 to 29" in row.reason
    lab.write(topic, range(5), 1)
    flow.wait_copied({(topic, 1): 5})
    # A restart of the flow makes no jump either.
    flow.restart()
    row = stopped_row(flow, topic, at=10, state="gap")
    assert "10 to 29" in row.reason
    assert len(lab.read(flow.remote(topic), target=True)[0]) == 10
    flow.stop()


def test_a_topic_deleted_and_created_again_is_not_read_on(lab: Lab) -> None:
    flow = lab.flow()
    topic, other = lab.create(flow.topic("again")), lab.create(flow.topic("other"))
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    lab.delete(topic)
    time.sleep(0.2)
    lab.create(topic)
    lab.write(topic, [f"new {number}" for number in range(50)])
    lab.write(other, range(10))
    row = stopped_row(flow, topic, at=10, state="gap")
    assert "deleted and created again" in row.reason
    flow.wait_copied({(other, 0): 10})
    time.sleep(3)
    assert len(lab.read(flow.remote(topic), target=True)[0]) == 10
    flow.stop()


def test_a_topic_deleted_on_the_source_leaves_the_plan_and_the_rest_goes_on(lab: Lab) -> None:
    flow = lab.flow()
    topic, other = lab.create(flow.topic("gone")), lab.create(flow.topic("stays"))
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    lab.delete(topic)
    lab.write(other, range(10))
    flow.wait_copied({(other, 0): 10})
    flow.wait(lambda s: partition_row(s, topic) is None and s.state == "running")
    assert len(lab.read(flow.remote(topic), target=True)[0]) == 10
    flow.stop()


def test_a_remote_topic_deleted_on_the_target_is_not_filled_again_from_the_middle(
    lab: Lab,
) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("lost"))
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    remote = flow.remote(topic)
    lab.on_target.delete_topics([remote])[remote].result(20)
    lab.write(topic, range(10))
    row = stopped_row(flow, topic, at=10, state="gap")
    assert remote in row.reason
    time.sleep(3)
    assert remote not in lab.on_target.list_topics(timeout=10).topics
    flow.stop()

"""Records are replicated unchanged: every field, codec, partition; committed records only."""

from __future__ import annotations

import random
import time

import pytest
from confluent_kafka.admin import ConfigResource

from tests.spark.lab import Lab, partition_row, topic_row

HOUR_MS = 3_600_000
YEAR_1971_MS = 31_536_000_000
KEEP = {"retention_ms": "-1", "max_message_bytes": "2000000"}


def nasty(rng: random.Random, count: int) -> list[dict[str, object]]:
    """Null and empty keys and values, duplicate headers, old and future times, 0 B to 900 KB."""
    now = int(time.time() * 1000)
    rows: list[dict[str, object]] = []
    for number in range(count):
        size = rng.choice([0, 1, 50, 1000, 10_000])
        headers = [
            ("n", b""),
            ("n", None),
            ("", b"empty name"),
            ("ключ", bytes([number % 256, 255])),
            ("n", b"again"),
        ]
        rows.append(
            {
                "key": rng.choice([None, b"", b"k", rng.randbytes(40)]),
                "value": rng.choice([None, b"", rng.randbytes(size), b"x" * size]),
                "headers": headers[: rng.randrange(6)] or None,
                "timestamp": rng.choice([1, YEAR_1971_MS, now, now + HOUR_MS - 60_000]),
            }
        )
    rows.append({"key": b"big", "value": rng.randbytes(900_000)})
    return rows


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_nasty_records_of_every_codec_arrive_field_for_field(lab: Lab, codec: str) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("t"), 3, **KEEP)
    rng = random.Random(codec)
    for partition in range(3):
        settings = {"compression.type": codec, "message.max.bytes": 2_000_000}
        lab.write(topic, nasty(rng, 60), partition, **settings)
    flow.start()
    status = flow.wait_in_sync(topic)
    assert lab.read(flow.remote(topic), target=True) == lab.read(topic)
    assert status.records == 3 * 61
    # Each replicated record is counted in a lane, with a reason where the lane is not raw.
    assert sum(row.records for row in status.lanes) == status.records
    assert {(row.lane, bool(row.why)) for row in status.lanes} <= {("raw", False), ("repack", True)}
    assert {row.lane for row in status.partitions} <= {row.lane for row in status.lanes}
    flow.stop()


def test_aborted_records_never_cross_and_lag_reaches_nought_behind_markers(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("txn"), 2)
    producer = lab.writer(**{"transactional.id": flow.name})
    producer.init_transactions(30)
    flow.start().wait_state("running")
    for number in range(30):
        producer.begin_transaction()
        for row in range(5):
            producer.produce(topic, f"{number}-{row}".encode(), partition=row % 2)
        assert producer.flush(30) == 0
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    # The last transaction was aborted: the position comes to stand behind its marker all the same.
    flow.wait(
        lambda s: (
            all(
                r.state == "in_sync" and r.position == r.source_stable_end == r.source_end
                for r in s.partitions
            )
            and s.records == 75
            and sum(r.position or 0 for r in s.partitions) == 150 + 2 * 30
        )
    )
    assert lab.read(flow.remote(topic), target=True) == lab.read(topic)
    flow.stop()


def test_an_open_transaction_holds_the_stable_end_back_and_that_is_shown(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("open"))
    producer = lab.writer(**{"transactional.id": flow.name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"later")
    assert producer.flush(30) == 0
    flow.start()
    row = partition_row(
        flow.wait(lambda s: s.partitions and s.partitions[0].source_end == 1), topic
    )
    assert row is not None
    assert (row.position, row.source_stable_end, row.state) == (0, 0, "in_sync")
    producer.commit_transaction(30)
    flow.wait_in_sync(topic)
    flow.stop()


def test_remote_topics_are_created_with_the_sources_settings_before_the_first_record(
    lab: Lab,
) -> None:
    flow = lab.flow()
    topic = lab.create(
        flow.topic("set"), 2, cleanup_policy="compact", retention_ms="12345678", segment_ms="600000"
    )
    lab.write(topic, [{"key": b"k", "value": b"v"}])
    flow.start().wait_in_sync(topic)
    configs = _configs(lab, flow.remote(topic))
    assert configs["cleanup.policy"] == "compact"
    assert configs["retention.ms"] == "12345678"
    assert configs["segment.ms"] == "600000"
    flow.stop()


def test_identity_policy_keeps_names_and_a_separator_changes_them(lab: Lab) -> None:
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    same = lab.flow(**{"replication.policy.class": identity})
    topic = lab.create(same.topic("same"))
    lab.write(topic, range(10))
    same.start().wait_in_sync(topic)
    assert lab.read(topic, target=True) == lab.read(topic)
    same.stop()

    other = lab.flow(**{"replication.policy.separator": "__"})
    topic = lab.create(other.topic("sep"))
    lab.write(topic, range(10))
    other.start().wait_in_sync(topic)
    assert lab.read(f"{other.source_alias}__{topic}", target=True) == lab.read(topic)
    other.stop()


def test_topics_that_the_filters_leave_out_are_listed_with_the_reason(lab: Lab) -> None:
    flow = lab.flow()
    flow.job.properties["topics.exclude"] = r".*\.not"
    copied, skipped = lab.create(flow.topic("yes")), lab.create(flow.topic("not"))
    status = flow.start().wait(lambda s: topic_row(s, skipped))
    row = topic_row(status, skipped)
    assert row is not None
    assert row.state == "skipped"
    assert "topics.exclude" in row.reason
    assert topic_row(status, copied) is not None
    assert partition_row(status, skipped) is None
    flow.stop()


def test_two_hundred_partitions_in_four_slices_arrive_whole(lab: Lab) -> None:
    flow = lab.flow(tasks_max="4")
    topic = lab.create(flow.topic("wide"), 200)
    producer = lab.writer()
    for number in range(6000):
        producer.produce(topic, f"{number}".encode(), partition=number % 200)
        producer.poll(0)
    assert producer.flush(60) == 0
    status = flow.start().wait_in_sync(topic, seconds=60)
    assert lab.read(flow.remote(topic), target=True) == lab.read(topic)
    assert [row.partitions for row in status.slices] == [50, 50, 50, 50]
    flow.stop()


def test_a_flow_without_a_topic_runs_and_finds_the_first_one(lab: Lab) -> None:
    flow = lab.flow().start()
    status = flow.wait_state("running")
    assert "No topic" in status.reason
    topic = lab.create(flow.topic("first"))
    lab.write(topic, range(5))
    flow.wait_copied({(topic, 0): 5}, seconds=10)
    flow.stop()


def test_at_least_once_copies_without_transactions(lab: Lab) -> None:
    flow = lab.flow(delivery="at_least_once")
    topic = lab.create(flow.topic("alo"), 2)
    lab.write(topic, range(500), 0)
    lab.write(topic, range(500), 1)
    flow.start().wait_in_sync(topic)
    assert lab.read(flow.remote(topic), target=True) == lab.read(topic)
    assert _end(lab, flow.remote(topic)) == 500
    flow.restart()
    lab.write(topic, range(100), 0)
    flow.wait_in_sync(topic)
    assert lab.read(flow.remote(topic), target=True) == lab.read(topic)
    flow.stop()


def _end(lab: Lab, topic: str) -> int:
    """Without transaction markers the end is the number of records."""
    return max(len(rows) for rows in lab.read(topic, target=True).values())


def _configs(lab: Lab, topic: str) -> dict[str, str | None]:
    resource = ConfigResource("topic", topic)
    entries = lab.on_target.describe_configs([resource])[resource].result(20)
    return {name: entry.value for name, entry in entries.items()}

"""Flows with rules: records are filtered and changed by Spark, exactly once, with exact offsets."""

from __future__ import annotations

import bisect
import hashlib
import hmac
import json
import os
import signal

import pytest
from confluent_kafka.admin import NewTopic

from mirrors.domain.transforms.headers import (
    ERROR_FIELD,
    ERROR_REASON,
    SOURCE_CLUSTER,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TIMESTAMP,
    SOURCE_TOPIC,
)
from mirrors.domain.transforms.rules import (
    TRANSFORMS,
    TransformRule,
    format_rules,
)
from tests.spark.conftest import MASK_KEY
from tests.spark.lab import Lab, partition_row, position, unique
from tests.spark.reading import end_offsets, messages
from tests.spark.scanned_logs import library_answers
from tests.spark.test_commands import load
from tests.spark.test_crashes import in_load
from tests.spark.test_gaps import decide

KILLS = int(os.environ.get("UNDERSTUDY_CRASHES", "3"))
CITY = "get_json_object(cast(value as string), '$.city')"


def rules(*given: TransformRule) -> dict[str, str]:
    return {TRANSFORMS: format_rules(given)}


def customers(count: int) -> list[dict[str, object]]:
    return [
        {
            "key": f"k{number}".encode(),
            "value": json.dumps(
                {"id": number, "city": ("Rome", "Oslo", "Kyiv")[number % 3]}
            ).encode(),
            "headers": [("n", str(number).encode()), ("none", None)],
            "timestamp": 1_700_000_000_000 + number,
        }
        for number in range(count)
    ]


def test_records_are_filtered_and_changed_and_the_others_are_copied(lab: Lab) -> None:
    flow = lab.flow(
        **rules(
            TransformRule(
                topics=".*customers",
                where=f"{CITY} <> 'Oslo'",
                value=f"concat(upper({CITY}), ':', cast(key as string))",
            )
        )
    )
    topic = lab.create(flow.topic("customers"), 2, retention_ms="-1")
    other = lab.create(flow.topic("other"), 1, retention_ms="-1")
    for partition in range(2):
        lab.write(topic, customers(300), partition)
    lab.write(other, customers(10))
    flow.start()
    flow.wait_in_sync(topic, other, seconds=120)
    for partition, records in lab.read(flow.remote(topic), target=True).items():
        kept = [row for row in lab.read(topic)[partition] if b"Oslo" not in (row[1] or b"")]
        assert records == [
            (key, json.loads(value)["city"].upper().encode() + b":" + key, *rest)
            for key, value, *rest in kept
        ]
    assert lab.read(flow.remote(other), target=True) == lab.read(other)
    # One process forks the workers of flows with rules and of all others.
    assert len(lab.worker_parents()) == 1
    flow.stop()


def test_fields_are_masked_and_dropped_and_tombstones_pass(lab: Lab) -> None:
    flow = lab.flow(
        **rules(
            TransformRule(
                topics=".*",
                where="header(headers, 'test') is null",
                value="json_mask(json_drop(json_hmac(value, 'env:UNDERSTUDY_MASK_TEST', 'id'), "
                "'card.number'), '***', 'name')",
                headers="set_header(headers, 'copied-by', cast('understudy' as binary))",
            )
        )
    )
    topic = lab.create(flow.topic("people"), 1)
    person = {"id": 7, "name": "Ada", "card": {"number": "4111", "expires": "12/27"}, "é": 1.50}
    lab.write(
        topic,
        [
            {"key": b"a", "value": json.dumps(person).encode(), "headers": [("n", b"1")]},
            {"key": b"a", "value": None},
            {"key": b"b", "value": b"no json", "headers": [("test", b"")]},
        ],
    )
    flow.start()
    flow.wait_in_sync(topic, seconds=120)
    [full, tombstone] = lab.read(flow.remote(topic), target=True)[0]
    masked = hmac.new(MASK_KEY.encode(), b"7", hashlib.sha256).hexdigest()
    assert json.loads(full[1] or b"") == {
        "id": masked,
        "name": "***",
        "card": {"expires": "12/27"},
        "é": 1.5,
    }
    assert full[2] == [("n", b"1"), ("copied-by", b"understudy")]
    assert tombstone[:2] == (b"a", None)
    flow.stop()


def test_a_failed_record_stops_its_partition_and_can_be_skipped(lab: Lab) -> None:
    flow = lab.flow(**rules(TransformRule(topics=".*", value="json_drop(value, 'x')")))
    topic = lab.create(flow.topic("t"), 2)
    good = [json.dumps({"n": number, "x": 0}) for number in range(20)]
    lab.write(topic, [*good[:10], "not json", *good[10:]], 0)
    lab.write(topic, good, 1)
    flow.start()
    status = flow.wait(lambda s: s.state == "degraded" and position(s, topic, 0) == 10, seconds=120)
    row = partition_row(status, topic)
    assert row is not None
    assert (row.state, row.code) == ("faulted", "transform_failed")
    assert "offset 10" in row.reason
    assert "the value expression of rule 1 failed" in row.reason
    flow.wait_copied({(topic, 1): 20})
    assert [row[1] for row in lab.read(flow.remote(topic), target=True)[0]] == [
        json.dumps({"n": number}).replace(" ", "").encode() for number in range(10)
    ]
    # A person skips the record.
    assert row.gap is not None
    decide(flow, topic, "accept", row.gap)
    flow.wait_copied({(topic, 0): 21})
    assert len(lab.read(flow.remote(topic), target=True)[0]) == 20
    flow.stop()


def test_a_failed_record_becomes_a_dead_letter_and_is_counted(lab: Lab) -> None:
    flow = lab.flow(
        **rules(TransformRule(topics=".*", value="json_drop(value, 'x')", on_error="dead_letter"))
    )
    # A record of 1970 would be deleted at the broker's next look.
    topic = lab.create(flow.topic("t"), 2, retention_ms="-1")
    good = [json.dumps({"n": number}).replace(" ", "") for number in range(20)]
    bad = {"key": b"k", "value": b"not json", "headers": [("h", b"1")], "timestamp": 1234}
    lab.write(topic, [*good[:10], bad, *good[10:], bad], 0)
    lab.write(topic, [bad], 1)
    flow.start()
    status = flow.wait_copied({(topic, 0): 22, (topic, 1): 1}, seconds=120)
    assert {row.state for row in status.partitions} <= {"in_sync", "syncing"}
    counts = {row.partition: row.dead_letters for row in status.partitions}
    assert counts == {0: 2, 1: 1}
    copied = lab.read(flow.remote(topic), target=True)
    assert [row[1] for row in copied[0]] == [value.encode() for value in good]
    assert copied[1] == []
    letters = lab.read(f"dead-letters.{flow.source_alias}", target=True)[0]
    assert {row[:2] for row in letters} == {(b"k", b"not json")}
    found = [dict(row[2]) for row in letters]
    places = sorted((h[SOURCE_PARTITION], h[SOURCE_OFFSET]) for h in found)
    assert places == [(b"0", b"10"), (b"0", b"21"), (b"1", b"0")]
    assert found[0]["h"] == b"1"
    assert found[0][SOURCE_TIMESTAMP] == b"1234"
    assert found[0][SOURCE_TOPIC] == topic.encode()
    assert found[0][ERROR_FIELD] == b"value"
    assert found[0][ERROR_REASON].decode() == (
        "The value expression of rule 1 (.*) failed: json_drop(value, 'x')"
    )
    # After a restart the count continues.
    flow.stop()
    flow.restart()
    lab.write(topic, [bad], 1)
    flow.start()
    status = flow.wait_copied({(topic, 1): 2})
    flow.wait(lambda s: {row.partition: row.dead_letters for row in s.partitions} == {0: 2, 1: 2})
    flow.stop()


def test_provenance_adds_the_origin_behind_the_headers(lab: Lab) -> None:
    flow = lab.flow(
        **rules(
            TransformRule(topics=r".*\.changed", value="upper(value)", provenance=True),
            TransformRule(topics=".*", provenance=True),
        )
    )
    changed = lab.create(flow.topic("changed"), 1, retention_ms="-1")
    same = lab.create(flow.topic("same"), 2, retention_ms="-1")
    row = {"key": b"k", "value": b"v", "headers": [("h", b"1"), ("n", None)], "timestamp": 1234}
    lab.write(changed, [row])
    lab.write(same, [row, row], 1)
    flow.start()
    flow.wait_in_sync(changed, same, seconds=120)

    def origin(topic: str, partition: int, offset: int) -> list[tuple[str, bytes | None]]:
        return [
            ("h", b"1"),
            ("n", None),
            (SOURCE_CLUSTER, flow.source_alias.encode()),
            (SOURCE_TOPIC, topic.encode()),
            (SOURCE_PARTITION, b"%d" % partition),
            (SOURCE_OFFSET, b"%d" % offset),
            (SOURCE_TIMESTAMP, b"1234"),
        ]

    [copy] = lab.read(flow.remote(changed), target=True)[0]
    assert copy[:3] == (b"k", b"V", origin(changed, 0, 0))
    copies = lab.read(flow.remote(same), target=True)[1]
    assert [one[:3] for one in copies] == [(b"k", b"v", origin(same, 1, at)) for at in (0, 1)]
    flow.stop()


def test_a_dead_letter_that_its_topic_does_not_accept_stops_the_partition(lab: Lab) -> None:
    flow = lab.flow(
        dead_letter_topic=unique("letters"),
        **rules(TransformRule(topics=".*", value="json_drop(value, 'x')", on_error="dead_letter")),
    )
    topic = lab.create(flow.topic("t"), 1)
    letters = flow.job.properties["dead.letter.topic"]
    lab.on_target.create_topics([NewTopic(letters, 1, config={"max.message.bytes": "1000"})])
    lab.write(topic, ["{}", "x" * 2000, "{}"])
    flow.start()
    status = flow.wait(lambda s: s.state == "degraded" and position(s, topic, 0) == 1, seconds=120)
    row = partition_row(status, topic)
    assert row is not None
    assert row.code == "transform_failed"
    assert f"{letters} accepts 1000; raise its max.message.bytes" in row.reason
    flow.stop()


def test_a_partition_of_dropped_records_is_copied_to_its_end(lab: Lab) -> None:
    flow = lab.flow(**rules(TransformRule(topics=".*", where="false")))
    topic = lab.create(flow.topic("t"), 1)
    lab.write(topic, [b"dropped"] * 50)
    flow.start()
    flow.wait_copied({(topic, 0): 50}, seconds=120)
    flow.stop()
    flow.restart()
    lab.write(topic, [b"dropped as well"] * 50)
    flow.start()
    flow.wait_copied({(topic, 0): 100})
    assert lab.read(flow.remote(topic), target=True) == {0: []}
    flow.stop()


@pytest.mark.timeout(400)
def test_killed_workers_lose_and_repeat_nothing_and_every_offset_is_translated(lab: Lab) -> None:
    flow = lab.flow(
        tasks_max="1",
        **rules(
            TransformRule(
                topics=".*",
                where="cast(cast(value as string) as int) % 3 <> 0",
                value="concat('v', cast(value as string))",
            )
        ),
    )
    topic = lab.create(flow.topic("w"), 4)
    flow.start().wait_state("running", seconds=120)
    with load(lab, topic, 4, at_once=10):
        for _ in range(KILLS):
            in_load(lab, flow, topic)
            status = flow.wait(lambda s: any(row.pid for row in s.slices))
            victim = next(row.pid for row in status.slices if row.pid)
            os.kill(victim, signal.SIGKILL)
            flow.wait(lambda s, dead=victim: all(row.pid != dead for row in s.slices), seconds=120)
        in_load(lab, flow, topic)
    flow.wait_in_sync(topic, seconds=120)
    ends = end_offsets(lab.source, topic)
    answers, _ = library_answers(flow, ends)
    source, translated = lab.read(topic), 0
    copies: dict[int, list[tuple[int | None, bytes | None]]] = {one: [] for one in source}
    for partition, row in messages(lab.target, flow.remote(topic)):
        if row is not None:
            copies[partition].append((row.offset(), row.value()))
    for partition, rows in source.items():
        kept = [
            (offset, value) for offset, (_, value, *_) in enumerate(rows) if int(value or b"") % 3
        ]
        expected_values = [b"v" + (value or b"") for _, value in kept]
        assert [value for _, value in copies[partition]] == expected_values
        offsets = [offset for offset, _ in kept]
        for upstream, (downstream, outcome) in enumerate(answers[topic, partition]):
            at = bisect.bisect_left(offsets, upstream)
            if at < len(kept) and at:
                expected = "exact" if offsets[at] == upstream else "gap"
                assert (downstream, outcome) == (copies[partition][at][0], expected), (upstream, at)
                translated += 1
    assert translated > 1000
    flow.stop()

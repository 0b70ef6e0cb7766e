"""Bytes of internal topics are Java's, both ways, and damage is named."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.internal_topics.encoding import MalformedRecord, murmur2
from mirrors.domain.internal_topics.records import (
    Checkpoint,
    ConnectOffset,
    Heartbeat,
    OffsetSync,
    Position,
    SliceCount,
    connect_key,
    read_position,
)
from tests.domain.cases import golden, laws

BYTES = golden("serialisation")
STORED = golden("connect_offsets_keys")
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize("case", BYTES["heartbeats"], ids=lambda case: case["text"])
def test_heartbeats_have_javas_bytes(case: dict[str, Any]) -> None:
    record = Heartbeat(case["source"], case["target"], case["timestamp"])
    assert (record.key.hex(), record.value.hex()) == (case["key"], case["value"])
    assert Heartbeat.read(record.key, record.value) == record


@pytest.mark.parametrize("case", BYTES["checkpoints"], ids=lambda case: case["text"])
def test_checkpoints_have_javas_bytes(case: dict[str, Any]) -> None:
    fields = ("group", "topic", "partition", "upstream", "downstream", "metadata")
    record = Checkpoint(*(case[field] for field in fields))
    assert (record.key.hex(), record.value.hex()) == (case["key"], case["value"])
    assert Checkpoint.read(record.key, record.value) == record


@pytest.mark.parametrize("case", BYTES["offset_syncs"], ids=lambda case: case["text"])
def test_offset_syncs_have_javas_bytes(case: dict[str, Any]) -> None:
    record = OffsetSync(case["topic"], case["partition"], case["upstream"], case["downstream"])
    assert (record.key.hex(), record.value.hex()) == (case["key"], case["value"])
    assert OffsetSync.read(record.key, record.value) == record


def mutated(mutation: str, part: str, data: bytes) -> bytes | None:
    which, _, change = mutation.partition(": ")
    if which != part:
        return data
    changes: dict[str, bytes | None] = {
        "unchanged": data,
        "null": None,
        "empty": b"",
        "three bytes appended": data + b"\x01\x02\x03",
        "last byte cut": data[:-1],
    }
    if change in changes:
        return changes[change]
    return bytes.fromhex(change.removeprefix("first two bytes = ")) + data[2:]


@pytest.mark.parametrize("case", BYTES["reading"], ids=lambda case: case["mutation"])
@pytest.mark.parametrize("kind", ["checkpoint", "offset_sync"])
def test_damaged_records_are_read_or_refused_as_in_java(case: dict[str, Any], kind: str) -> None:
    base = BYTES["reading_base"]
    key, value = (
        mutated(case["mutation"], part, bytes.fromhex(base[f"{kind}_{part}"]))
        for part in ("key", "value")
    )
    expected = case[kind]
    # MM2 up to 4.3 reads any version as 0; since 4.4 it refuses, and so do we.
    newer = kind == "checkpoint" and case["mutation"].startswith("value: first two bytes")
    if isinstance(expected, dict) or newer:
        with pytest.raises(MalformedRecord):
            (Checkpoint if kind == "checkpoint" else OffsetSync).read(key, value)
    elif kind == "checkpoint":
        read = Checkpoint.read(key, value)
        assert expected == (
            f"Checkpoint{{consumerGroupId={read.group}, "
            f"topicPartition={read.topic}-{read.partition}, upstreamOffset={read.upstream}, "
            f"downstreamOffset={read.downstream}, metadata={read.metadata}}}"
        )
    else:
        sync = OffsetSync.read(key, value)
        assert expected == (
            f"OffsetSync{{topicPartition={sync.topic}-{sync.partition}, "
            f"upstreamOffset={sync.upstream}, downstreamOffset={sync.downstream}}}"
        )


@pytest.mark.parametrize("case", STORED["cases"], ids=lambda case: case["key_text"])
def test_stored_offsets_have_javas_keys_and_partitions(case: dict[str, Any]) -> None:
    place = {
        name: case[name]
        for name in ("cluster", "partition", "topic", "group",
                     "sourceClusterAlias", "targetClusterAlias")
        if name in case
    }  # fmt: skip
    if case["connector"] == "MirrorSourceConnector":
        record = ConnectOffset(**place, offset=1, connector=case["connector"])
        assert record.key.hex() == case["key"]
        assert record.kafka_partition() == case["partition_of_25"]
        assert ConnectOffset.read(record.key, record.value) == record
    elif place:
        assert connect_key(case["connector"], place).hex() == case["key"]
        with pytest.raises(MalformedRecord, match="not that of a MirrorSourceConnector"):
            ConnectOffset.read(bytes.fromhex(case["key"]), b'{"offset":0}')


@pytest.mark.parametrize("case", STORED["values"], ids=lambda case: case["value_text"])
def test_stored_offsets_have_javas_values(case: dict[str, Any]) -> None:
    record = ConnectOffset(cluster="A", topic="t", partition=0, offset=case["offset"])
    assert record.value == case["value_text"].encode()


def test_murmur2_is_kafkas() -> None:
    for key, hashed, of_25, of_7 in STORED["murmur2"]:
        assert murmur2(bytes.fromhex(key)) == hashed
        assert [(hashed & 0x7FFFFFFF) % count for count in (25, 7)] == [of_25, of_7]


def test_a_removed_offset_is_a_null_value() -> None:
    removed = ConnectOffset(cluster="A", topic="t", partition=0, offset=None)
    assert removed.value is None
    assert ConnectOffset.read(removed.key, None) == removed


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (None, b"{}", "null"),
        (b"x", b"{}", "not JSON"),
        (b"{}", b"{}", "not a pair"),
        (b'["a",{"cluster":"A"}]', b"{}", "not that of a MirrorSourceConnector"),
        (b'["a",{"cluster":"A","partition":0,"topic":"t"}]', b"{}", "no offset"),
        (b'["a",{"cluster":"A","partition":0,"topic":"t"}]', b'{"offset":"1"}', "no offset"),
    ],
)
def test_a_damaged_stored_offset_is_named(key: bytes, value: bytes, words: str) -> None:
    with pytest.raises(MalformedRecord, match=words):
        ConnectOffset.read(key, value)


@laws
@given(group=TEXT, topic=TEXT, partition=INT32, up=INT64, down=INT64, metadata=TEXT)
def test_a_checkpoint_comes_back_as_it_was(
    group: str, topic: str, partition: int, up: int, down: int, metadata: str
) -> None:
    record = Checkpoint(group, topic, partition, up, down, metadata)
    assert Checkpoint.read(record.key, record.value) == record


@laws
@given(cluster=TEXT, topic=TEXT, partition=INT32, offset=st.integers(0, 2**63 - 1))
def test_a_stored_offset_comes_back_as_it_was(
    cluster: str, topic: str, partition: int, offset: int
) -> None:
    record = ConnectOffset(cluster=cluster, topic=topic, partition=partition, offset=offset)
    assert ConnectOffset.read(record.key, record.value) == record


@laws
@given(topic=TEXT, partition=INT32, position=st.integers(0, 2**63 - 1), epoch=st.none() | INT32)
def test_a_position_comes_back_as_it_was(
    topic: str, partition: int, position: int, epoch: int | None
) -> None:
    record = Position(
        topic=topic, partition=partition, position=position, source_cluster="s",
        source_topic_id="i", target_cluster="t", target_topic_id="j", leader_epoch=epoch, resets=2,
    )  # fmt: skip
    assert read_position(record.key, record.value) == record
    again = dataclasses.replace(record, next_downstream=9, map_end=8, repeats=5)
    again = dataclasses.replace(again, owed=(3, 1), producer=0)
    assert read_position(again.key, again.value) == again


def test_a_position_is_plain_json() -> None:
    record = Position(
        topic="orders", partition=3, position=42, source_cluster="s", source_topic_id="i",
        target_cluster="t", target_topic_id="j",
    )  # fmt: skip
    assert record.key == b'{"topic":"orders","partition":3}'
    assert record.value == (
        b'{"v":1,"position":42,"source_cluster":"s","source_topic_id":"i","target_cluster":"t",'
        b'"target_topic_id":"j","leader_epoch":null,"resets":0}'
    )
    assert (SliceCount(4).key, SliceCount(4).value) == (b'{"slices":true}', b'{"v":1,"count":4}')
    assert read_position(SliceCount(4).key, SliceCount(4).value) == SliceCount(4)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (b'{"slices":true}', None, "null"),
        (b'{"slices":true}', b'{"v":2,"count":1}', "version 2"),
        (b'{"slices":true}', b'{"v":1}', "lacks a field"),
        (b'{"slices":true}', b'{"v":1,"count":"1"}', "not a number"),
        (b'{"topic":"a","partition":0}', b'{"v":1,"position":1}', "lacks a field"),
        (b"[]", b"{}", "not a position"),
    ],
)
def test_a_damaged_position_is_named(key: bytes, value: bytes | None, words: str) -> None:
    with pytest.raises(MalformedRecord, match=words):
        read_position(key, value)


def test_a_text_that_does_not_fit_is_refused() -> None:
    with pytest.raises(MalformedRecord, match="40000 bytes"):
        _ = Heartbeat("a" * 40_000, "b", 0).key

"""The digest finds every way in which a copy can differ; the filler writes what it says."""

from __future__ import annotations

import itertools
import uuid
from array import array

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from controlplane.bench.workload.content_digests import (
    difference,
    digest_after,
    read_digest_sequences,
)
from controlplane.bench.workload.producer import fill
from controlplane.bench.workload.record_shapes import Shape, build_pool
from controlplane.bench.workload.topics import Topics
from spark_runner.kafka_protocol.records import decode_batch

RECORD = {"key": b"k", "value": b"v", "headers": [("h", b"1")], "timestamp": 1_000, "partition": 0}
CHANGES = [
    {"key": None},
    {"key": b""},
    {"value": None},
    {"value": b"w"},
    {"headers": []},
    {"headers": [("h", b"1"), ("h", b"1")]},
    {"headers": [("h", None)]},
    {"headers": [("h", b"")]},
    {"headers": [("g", b"1")]},
    {"timestamp": 1_001},
]


class Said:
    """As much of a message as the digest looks at."""

    def __init__(self, **fields: object) -> None:
        self._fields = {**RECORD, **fields}

    def key(self) -> object:
        return self._fields["key"]

    def value(self) -> object:
        return self._fields["value"]

    def headers(self) -> object:
        return self._fields["headers"]

    def timestamp(self) -> tuple[int, object]:
        return 1, self._fields["timestamp"]


def trail(*records: Said) -> array[int]:
    found = array("I")
    for record in records:
        found.append(digest_after(found[-1] if found else 0, record))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_a_record_changes_the_digest(change: dict[str, object]) -> None:
    assert trail(Said()) != trail(Said(**change))


def test_parts_that_run_together_are_told_apart() -> None:
    assert trail(Said(key=b"ab", value=b"c")) != trail(Said(key=b"a", value=b"bc"))


@given(st.permutations(range(5)))
def test_order_matters(order: list[int]) -> None:
    straight = trail(*(Said(value=b"%d" % number) for number in range(5)))
    other = trail(*(Said(value=b"%d" % number) for number in order))
    assert (straight[-1] == other[-1]) == (order == list(range(5)))


@pytest.mark.parametrize(
    ("copy", "whole", "sentence"),
    [
        ("abcd", True, ""),
        ("abc", False, ""),
        ("", False, ""),
        ("abc", True, "r.t-0 has only 3 of 4 records"),
        ("abcde", False, "r.t-0 has 5 records, its source 4"),
        ("abd", False, "r.t-0 differs from its source at record 2"),
        ("aabc", False, "r.t-0 differs from its source at record 1"),
        ("abdc", True, "r.t-0 differs from its source at record 2"),
    ],
)
def test_a_copy_may_end_early_but_must_not_skip_repeat_or_swap(
    copy: str, whole: bool, sentence: str
) -> None:
    source = {("t", 0): trail(*(Said(value=letter.encode()) for letter in "abcd"))}
    target = {("r.t", 0): trail(*(Said(value=letter.encode()) for letter in copy))}
    assert difference(source, target, {"t": "r.t"}, whole=whole) == sentence


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_the_pool_has_distinct_batches_that_compress_by_about_a_half(codec: str) -> None:
    shape = Shape(codec=codec)
    pool = build_pool(shape, size=4)
    records = list(itertools.chain.from_iterable(decode_batch(memoryview(one)) for one in pool))
    sizes = {
        len(record.key or b"") + len(record.value or b"") + sum(map(len, record.headers[0]))
        for record in records
    }
    assert sizes == {shape.record_bytes}
    assert len({record.value for record in records}) == len(records)
    share = sum(map(len, pool)) / (len(records) * shape.record_bytes)
    assert 1.0 < share < 1.03 if codec == "none" else 0.45 < share < 0.65


def test_what_was_filled_is_what_an_independent_reader_finds(primary: str) -> None:
    topics = Topics(primary)
    name = f"bench-fill-{uuid.uuid4().hex[:8]}"
    topics.create([name], 3)
    try:
        filled = fill(primary, [name], 3, Shape(record_bytes=100, batch_bytes=5_000), 300_000)
        found = read_digest_sequences(primary, filled.records, deadline_s=60)
        assert {tp: len(digests) for tp, digests in found.items()} == filled.records
        # No two records are alike, so that swaps and repeats show.
        assert all(len(set(digests)) == len(digests) for digests in found.values())
        assert filled.total * 100 == pytest.approx(300_000, rel=0.1)
    finally:
        topics.delete([name])


def test_a_reader_sees_the_difference_of_two_real_topics(primary: str) -> None:
    topics = Topics(primary)
    names = [f"bench-digest-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    topics.create(names, 1)
    producer = Producer({"bootstrap.servers": primary})
    try:
        for name, last in zip(names, (b"same", b"other"), strict=True):
            for value in (b"1", None, last):
                producer.produce(name, value=value, key=b"k", headers={"h": b"x"}, timestamp=5)
        producer.flush(30)
        partitions = [(name, 0) for name in names]
        found = read_digest_sequences(primary, partitions, deadline_s=60)
        assert difference(found, found, {name: name for name in names}, whole=True) == ""
        wrong = difference(
            {partitions[0]: found[partitions[0]]}, found, {names[0]: names[1]}, whole=True
        )
        assert wrong == f"{names[1]}-0 differs from its source at record 2"
    finally:
        topics.delete(names)

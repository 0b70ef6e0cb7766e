"""Ranges compared by a task without Spark: same digests, and each record that differs is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from mirrors.domain.comparison.digests import SideDigest, compare_chunks
from mirrors.domain.comparison.range_requests import ComparedRange, RangePair
from mirrors.domain.comparison.record_content import RecordContent, body_of, content_of
from mirrors.domain.failback.orphans import MARK_HEADER
from spark_runner.comparison import task
from spark_runner.comparison.task import RangeWork
from spark_runner.kafka_protocol.records import Record
from tests.wire.world import Flow, Side, unique

SIZE = 3000


@pytest.fixture(scope="module")
def sides(primary: str, backup: str) -> Iterator[tuple[Side, Side]]:
    both = Side(unique("one"), primary), Side(unique("two"), backup)
    yield both
    for side in both:
        side.close()


def record(number: int, **fields: object) -> Record:
    plain = Record(0, 1_000_000 + number, b"k%d" % (number % 50), b"v%d" % number)
    return plain._replace(**fields)


def pair(topic: str, remote: str, source: list[int], target: list[int]) -> RangePair:
    return RangePair(
        part=7,
        topic=topic,
        partition=0,
        remote_topic=remote,
        keeps_time=True,
        source=tuple(source),
        target=tuple(target),
    )


def compare(sides: tuple[Side, Side], asked: RangePair, **properties: str) -> ComparedRange:
    work = RangeWork(
        source=sides[0].spec,
        target=sides[1].spec,
        properties=properties,
        pair=asked,
        bytes_per_second=None,
        seconds=30,
    )
    again = RangeWork.from_json(work.to_json())
    assert again == work
    return ComparedRange.from_dict(task.run(again).to_dict())


def test_what_the_engine_copied_has_the_digests_that_records_alone_give(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    topic = unique("copied")
    source.make(topic, 1)
    copy = Flow(source, target)
    remote = copy.add(topic)
    writer = source.transaction(unique("writer"))
    for at in range(0, SIZE, 30):
        source.write(topic, 0, [record(at + one, headers=((b"h", None),)) for one in range(20)])
        writer.write(topic, 0, [record(at + one, key=None) for one in range(10)])
        writer.end(commit=at % 90 != 0)
    copy.copy()
    (end,) = source.ends(topic, committed=True).values()
    runs = copy.runs(topic)
    cuts = [0, 500, 501, 2000, end]

    def there(offset: int) -> int:
        below = [run for run in runs if run.upstream <= offset]
        return below[-1].downstream + min(offset - below[-1].upstream, below[-1].length)

    found = compare(sides, pair(topic, remote, cuts, [there(at) for at in cuts]))

    assert (found.refusal, found.differences) == ("", ())
    assert found.source == found.target
    alone = SideDigest(cuts)
    for row in source.read(topic):
        body = body_of(row.key, row.value, row.headers)
        content = RecordContent(row.offset, body, row.timestamp)
        alone.add(row.offset, content_of(content, with_timestamp=True))
    alone.reach(end)
    assert compare_chunks(alone, found.source).ranges == ()
    assert sum(found.source.counts) == len(target.read(remote))


def test_by_key_only_the_last_record_of_each_key_counts(sides: tuple[Side, Side]) -> None:
    source, target = sides
    topic = unique("keys")
    # Of 50 keys the last 50 records count; the target compacted what is below, and key 7 is gone on
    # both sides, on one of them with its tombstone.
    rows = [record(number) for number in range(1000)]
    rows[957] = record(957, value=None)
    there = [row for number, row in enumerate(rows) if number >= 950 and number != 957]
    for side, some in ((source, rows), (target, there)):
        side.make(topic, 1)
        side.write(topic, 0, some)
    cuts, below = [0, 500, 1000], [0, 0, len(there)]
    asked = dataclasses.replace(pair(topic, topic, cuts, below), by_key=True)

    found = compare(sides, asked)

    assert (found.refusal, found.differences) == ("", ())
    assert found.source == found.target
    assert found.source.counts == (49, 0)
    assert compare(sides, dataclasses.replace(asked, by_key=False)).differences

    # A foreign record replaces key 3, one of its own key is new, and key 9 is missing.
    theirs = [record(3, value=b"other"), record(0, key=b"new")]
    target.make(f"{topic}-b", 1)
    target.write(f"{topic}-b", 0, [row for row in there if row.key != b"k9"] + theirs)
    below = [0, 0, len(there) + 1]
    asked = dataclasses.replace(asked, remote_topic=f"{topic}-b", target=tuple(below))

    [(first, last, differences)] = compare(sides, asked).differences

    assert (first, last) == (0, 1)
    assert [
        (row.kind, row.source and row.source.offset, row.target and row.target.offset, row.behind)
        for row in differences
    ] == [
        ("extra", None, 49, (499, -1)),
        ("changed", 953, 48, (953, 48)),
        ("missing", 959, None, (499, -1)),
    ]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("flipped", ("changed", 700, 700)),
        ("swapped", ("swapped", 700, 700)),
        ("dropped", ("missing", 700, None)),
        ("doubled", ("doubled", None, 701)),
        ("header", ("changed", 700, 700)),
        ("marked", None),
    ],
)
def test_the_record_that_differs_is_named_however_records_are_batched(
    sides: tuple[Side, Side], fault: str, expected: tuple[str, int | None, int | None] | None
) -> None:
    source, target = sides
    topic = unique(fault)
    records = [record(number) for number in range(SIZE)]
    there = list(records)
    if fault == "flipped":
        there[700] = record(700, value=b"other")
    elif fault == "header":
        there[700] = record(700, headers=((b"trace", b"1"),))
    elif fault == "marked":  # replayed after a failover: no difference
        there[700] = record(700, headers=((MARK_HEADER.encode(), b"1"),))
    elif fault == "swapped":
        there[700], there[701] = there[701], there[700]
    elif fault == "dropped":
        del there[700]
    else:
        there.insert(701, there[700])
    for side, rows, size in ((source, records, 70), (target, there, 110)):
        side.make(topic, 1)
        for at in range(0, len(rows), size):
            side.write(topic, 0, rows[at : at + size])
    shift = len(there) - SIZE
    cuts = [*range(0, SIZE, 500), SIZE]

    found = compare(
        sides, pair(topic, topic, cuts, [at + (shift if at > 700 else 0) for at in cuts])
    )

    assert found.refusal == ""
    rows = [row for _, _, some in found.differences for row in some]
    if expected is None:
        assert rows == []
        return
    (row,) = rows
    offsets = [None if one is None else one.offset for one in (row.source, row.target)]
    assert (row.kind, *offsets) == expected
    assert [(first, last) for first, last, _ in found.differences] == [(1, 2)]
    assert sum(found.source.counts) == SIZE


def test_what_cannot_be_read_is_a_sentence(sides: tuple[Side, Side]) -> None:
    source, target = sides
    topic = unique("gone")
    for side in sides:
        side.make(topic, 1)
        side.write(topic, 0, [record(number) for number in range(10)])
    found = compare(sides, pair(topic, unique("missing"), [0, 10], [0, 10]))
    assert f"{target.spec.alias}" in found.refusal
    assert found.source.complete == 0
    (deleted,) = source.admin.client.delete_records([TopicPartition(topic, 0, 5)]).values()
    assert deleted.result(20).low_watermark == 5
    found = compare(sides, pair(topic, topic, [0, 10], [0, 10]))
    assert "does not hold offset 0 any more" in found.refusal

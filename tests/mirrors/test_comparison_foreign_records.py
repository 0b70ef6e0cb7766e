"""A comparison finds foreign records in remote partitions at any offset."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirrors.domain.offsets.runs import Run
from mirrors.models import PartitionMap
from tests.mirrors.comparison import compare, flow_of, record
from tests.mirrors.maps import keep_map
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db
SIZE = 1200
STRAY = record(5_000_000)


@pytest.fixture(scope="module")
def sides(primary: str, backup: str) -> Iterator[tuple[Side, Side]]:
    both = Side(unique("one"), primary), Side(unique("two"), backup)
    yield both
    for side in both:
        side.close()


def test_a_stray_record_is_found_wherever_it_lies(sides: tuple[Side, Side]) -> None:
    source, target = sides
    topic = unique("strays")
    remote = f"{source.spec.alias}.{topic}"
    records = [record(number) for number in range(SIZE)]
    # Where the stray lies on the target, and the runs of a copier that wrote around it.
    placed = {
        0: (0, [Run(0, 1, SIZE)]),
        1: (SIZE, [Run(0, 0, SIZE)]),
        # In front of a chunk: those are 500 source offsets long.
        2: (500, [Run(0, 0, 500), Run(500, 501, SIZE - 500)]),
        3: (501, [Run(0, 0, 501), Run(501, 502, SIZE - 501)]),
    }
    source.make(topic, 6)
    target.make(remote, 6)
    flow = flow_of(source, target, topic)
    for partition, (at, runs) in placed.items():
        source.write(topic, partition, records)
        target.write(remote, partition, [*records[:at], STRAY, *records[at:]])
        keep_map(flow, topic, partition, runs, position=SIZE, at_once=9)
    # Nothing was ever there to copy.
    target.write(remote, 4, [STRAY])
    keep_map(flow, topic, 4, [], position=0, at_once=1)
    keep_map(flow, topic, 5, [], position=0, at_once=1)

    run = compare(flow)

    assert (run.state, run.verdict) == ("succeeded", "differs"), run.reason
    found = {
        row.partition: (row.kind, row.target_offset) for row in run.findings.filter(about="content")
    }
    assert found == {
        **{partition: ("extra", at) for partition, (at, _) in placed.items()},
        4: ("extra", 0),
    }
    verdicts = {part.partition: part.verdict for part in run.parts.all()}
    assert verdicts == {0: "differs", 1: "differs", 2: "differs", 3: "differs", 4: "differs",
                        5: "same"}  # fmt: skip
    # Of the last records only, a stray right in front of the first compared one counts.
    run = compare(flow, records=SIZE - 500)
    (finding,) = run.findings.filter(about="content", partition=2)
    assert (finding.kind, finding.target_offset) == ("extra", 500)
    assert not run.findings.filter(about="content", partition=0).exists()


def test_a_partition_that_the_source_has_not_is_named(sides: tuple[Side, Side]) -> None:
    source, target = sides
    topic = unique("wider")
    remote = f"{source.spec.alias}.{topic}"
    source.make(topic, 1)
    target.make(remote, 4)
    flow = flow_of(source, target, topic)
    source.write(topic, 0, [record(0)])
    target.write(remote, 0, [record(0)])
    keep_map(flow, topic, 0, [Run(0, 0, 1)], position=1, at_once=1)
    target.write(remote, 1, [STRAY, STRAY])
    # The source topic had this one before it was made again.
    target.write(remote, 3, [STRAY])
    old = keep_map(flow, topic, 3, [Run(0, 0, 1)], position=1, at_once=1)
    PartitionMap.objects.filter(pk=old.pk).update(position=None)

    run = compare(flow)

    assert run.verdict == "differs"
    rows = run.findings.filter(about="partition").order_by("partition")
    assert [(row.partition, row.kind, row.weight) for row in rows] == [
        (1, "extra", "differs"),
        (2, "extra", "note"),
        (3, "extra", "note"),
    ]
    assert "at most 2 records, offsets 0 to 1" in rows[0].sentence
    assert "1 topic differs in its partitions" in run.reason


def test_what_mm2_copied_before_a_takeover_is_no_stray_and_not_compared(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    topic = unique("taken")
    remote = f"{source.spec.alias}.{topic}"
    source.make(topic, 2)
    target.make(remote, 2)
    flow = flow_of(source, target, topic)
    records = [record(number) for number in range(30)]
    source.write(topic, 0, records)
    # MirrorMaker 2 copied ten records, twice three of them; then a stray; then this flow.
    target.write(remote, 0, [*records[:10], *records[7:10], STRAY, *records[10:]])
    keep_map(flow, topic, 0, [Run(10, 14, 20)], position=30, at_once=9, follows=13)
    # Taken over, and nothing came since but a stray.
    source.write(topic, 1, records[:5])
    target.write(remote, 1, [*records[:5], STRAY])
    taken = keep_map(flow, topic, 1, [], position=5, at_once=1)
    PartitionMap.objects.filter(pk=taken.pk).update(map_end=5)

    run = compare(flow)

    found = [(row.partition, row.kind, row.target_offset)
             for row in run.findings.filter(about="content").order_by("partition")]  # fmt: skip
    assert found == [(0, "extra", 13), (1, "extra", 5)]
    part = run.parts.get(partition=0)
    assert part.unread == 10
    assert "Offsets 0 to 12 of the target" in part.reason

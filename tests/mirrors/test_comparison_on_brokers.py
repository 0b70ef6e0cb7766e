"""Comparisons on real clusters: each planted difference is found with its offset, and no other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirrors.domain.failback.orphans import MARK_HEADER
from mirrors.domain.offsets.runs import Run
from mirrors.models import Cluster, ComparisonFinding
from spark_runner.kafka_protocol.records import Record
from tests.mirrors.comparison import NO_HEARTBEATS, compare, flow_of, record
from tests.mirrors.maps import keep_map
from tests.pages import world as rows
from tests.wire.world import Flow as Copy
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db
SIZE, AT = 1300, 700
# What was done to a partition of the target, and whether its map knows that offsets moved.
FAULTS = (
    ("none", True),
    ("flipped", True),
    ("swapped", True),
    ("dropped", True),
    ("dropped", False),
    ("doubled", True),
    ("doubled", False),
    ("last doubled", False),
    ("header", True),
    ("brought over", True),
)


@pytest.fixture(scope="module")
def sides(primary: str, backup: str) -> Iterator[tuple[Side, Side]]:
    both = Side(unique("one"), primary), Side(unique("two"), backup)
    yield both
    for side in both:
        side.close()


def faulty(records: list[Record], fault: str) -> list[Record]:
    there = list(records)
    if fault == "flipped":
        there[AT] = record(AT, value=b"w%d" % AT)
    elif fault == "header":
        there[AT] = record(AT, headers=((b"trace", b"1"),))
    elif fault == "brought over":  # after a failover, and marked: no fault
        there[AT] = record(AT, headers=((MARK_HEADER.encode(), b"1"),))
    elif fault == "swapped":
        there[AT], there[AT + 1] = there[AT + 1], there[AT]
    elif fault == "dropped":
        del there[AT]
    elif fault == "doubled":
        there.insert(AT + 1, there[AT])
    elif fault == "last doubled":
        there.append(there[-1])
    return there


def map_of(fault: str, *, knows: bool) -> list[Run]:
    """The runs of a copier that made the fault; one that does not know it counted on."""
    if knows and fault == "dropped":
        return [Run(0, 0, AT), Run(AT + 1, AT, SIZE - AT - 1)]
    if knows and fault == "doubled":
        return [Run(0, 0, AT + 1), Run(AT + 1, AT + 2, SIZE - AT - 1)]
    return [Run(0, 0, SIZE)]


def test_each_single_fault_is_found_and_its_record_named(sides: tuple[Side, Side]) -> None:
    source, target = sides
    topic = unique("faults")
    remote = f"{source.spec.alias}.{topic}"
    source.make(topic, len(FAULTS))
    target.make(remote, len(FAULTS))
    flow = flow_of(source, target, topic)
    records = [record(number) for number in range(SIZE)]
    for partition, (fault, knows) in enumerate(FAULTS):
        source.write(topic, partition, records)
        target.write(remote, partition, faulty(records, fault))
        keep_map(flow, topic, partition, map_of(fault, knows=knows), position=SIZE, at_once=9)

    run = compare(flow)

    assert (run.state, run.verdict) == ("succeeded", "differs"), run.reason
    found = {
        row.partition: (row.kind, row.source_offset, row.target_offset)
        for row in ComparisonFinding.objects.filter(comparison=run, about="content")
    }
    assert found == {
        1: ("changed", AT, AT),
        2: ("swapped", AT, AT),
        3: ("missing", AT, None),
        4: ("missing", AT, None),
        5: ("doubled", AT, AT + 1),
        6: ("doubled", AT, AT + 1),
        7: ("doubled", SIZE - 1, SIZE),
        8: ("changed", AT, AT),
    }
    fields = ComparisonFinding.objects.get(comparison=run, partition=8, about="content")
    assert "its headers differs" in fields.sentence
    assert f"{topic}-8 offset {AT}" in fields.sentence
    parts = {part.partition: part for part in run.parts.all()}
    assert parts[0].verdict == "same"
    assert parts[9].verdict == "same"
    assert parts[0].source_digest == parts[0].target_digest != ""
    assert {parts[number].verdict for number in range(1, 9)} == {"differs"}
    assert all(parts[number].source_records == SIZE for number in parts)
    assert "8 differences in content" in run.reason


def test_what_a_flow_copied_is_the_same_with_transactions_and_while_more_comes(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    topic = unique("copied")
    source.make(topic, 2)
    copy = Copy(source, target, commit_interval_ms="20")
    remote = copy.add(topic)
    writer = source.transaction(unique("writer"))
    for at in range(40):
        source.write(topic, 0, [record(at * 3), record(at * 3 + 1)])
        writer.write(topic, 0, [record(at * 3 + 2)])
        writer.end(commit=at % 3 != 0)
    copy.copy()
    source.write(topic, 0, [record(10_000)])
    spec = copy.spec
    one = Cluster.objects.create(alias=spec.alias, bootstrap_servers=spec.bootstrap_servers)
    there = target.spec
    two = Cluster.objects.create(alias=there.alias, bootstrap_servers=there.bootstrap_servers)
    flow = rows.flow(one, two, properties={"topics": topic, **NO_HEARTBEATS})

    run = compare(flow)

    part, empty = run.parts.order_by("partition")
    assert (part.verdict, part.reason) == ("same", "")
    assert part.source_records == part.target_records == len(target.read(remote)) > 80
    assert empty.verdict == "same"
    contents = [row.sentence for row in run.findings.filter(about="content")]
    assert contents == []
    # A foreign record on the target is in no map.
    target.write(remote, 0, [record(5_000_000)])
    run = compare(flow)
    (finding,) = run.findings.filter(about="content")
    assert (finding.kind, finding.source_offset) == ("extra", None)
    assert finding.target_offset == target.read(remote)[-1].offset


def test_what_compaction_took_is_no_difference_but_the_last_word_on_a_key_is(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    topic = unique("compacted")
    remote = f"{source.spec.alias}.{topic}"
    source.make(topic, 1, cleanup_policy="compact")
    target.make(remote, 1, cleanup_policy="compact")
    flow = flow_of(source, target, topic)
    records = [
        Record(0, 1_000_000 + at, b"k%d" % (at % 7), None if at in (45, 46) else b"v%d" % at)
        for at in range(49)
    ]
    source.write(topic, 0, records)
    # Long replaced ones are gone, so is a deletion, and so is what nothing replaced: 48.
    kept = [at for at in range(49) if at not in {0, 1, 2, 9, 45, 48}]
    target.write(remote, 0, [records[at] for at in kept])
    runs = [Run(at, number, 1) for number, at in enumerate(kept)]
    keep_map(flow, topic, 0, runs, position=49, at_once=5)

    run = compare(flow)

    (finding,) = run.findings.filter(about="content")
    assert (finding.kind, finding.source_offset) == ("missing", 48)
    (part,) = run.parts.all()
    assert (part.explained, part.differences) == (5, 1)

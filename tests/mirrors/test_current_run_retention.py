"""Retention of current runs: blocks before both logs are deleted, and no translation changes."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from confluent_kafka import TopicPartition
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrors.domain.offsets import runs
from mirrors.domain.offsets.replicated_ranges import ReplicatedRanges
from mirrors.domain.offsets.retention import RetentionBoundary
from mirrors.domain.offsets.runs import BlockKey, Run, pack
from mirrors.domain.offsets.translation import Translation
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import InternalRecord
from mirrors.models import (
    Comparison,
    Divergence,
    Flow,
    GroupOffset,
    PartitionMap,
    RunBlock,
    RunIndex,
)
from mirrors.services.offsets.retention.current_runs import (
    due_blocks,
    flows_with_runs,
    retire_blocks,
)
from mirrors.services.offsets.reverse_translation import upstream_of
from mirrors.services.offsets.run_blocks import read_records, write_blocks
from mirrors.services.offsets.run_index import refresh_index
from tests.domain.cases import laws
from tests.domain.test_offsets import copied, runs_of
from tests.mirrors.test_run_index import ask, flow_of, write_some
from tests.pages import world as rows
from tests.wire.world import Flow as Copy
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db
TP = ("t", 0)


def topic_of(found: list[Run]) -> list[InternalRecord]:
    """The topic of runs as a flow writes it, two runs a transaction."""
    records: list[InternalRecord] = []
    block = None
    for at in range(0, len(found), 2):
        packed = pack(block, found[at : at + 2])
        block = packed.open
        for one in packed.blocks:
            key = BlockKey(*TP, "g", one.first.upstream, "id").to_bytes()
            records.append(InternalRecord(0, len(records), 0, key, one.to_bytes()))
    return records


def compacted(records: list[InternalRecord], taken: set[int]) -> list[InternalRecord]:
    """What is left of it: the last version of each block that was not taken off."""
    latest = {record.key: record for record in records}
    kept = {key: row for key, row in latest.items() if first_of(row) not in taken}
    return sorted(kept.values(), key=lambda record: record.offset)


def first_of(record: InternalRecord) -> int:
    return BlockKey.from_bytes(record.key or b"").first


def build(known: PartitionMap, records: list[InternalRecord]) -> None:
    RunBlock.objects.filter(map=known).delete()
    write_blocks((known.pk, block) for _, block in read_records(records).last_blocks())


def mapped(position: int) -> PartitionMap:
    """Of a flow whose target was promoted, so that reverse translation is asked too."""
    flow = rows.flow(desired_state="stopped")
    point = {"position": position, "downstream": 0, "end": 0, "how": "end", "mark": "m"}
    Divergence.objects.create(
        flow=flow, topic="t", partition=0, remote_topic="t", kept_at=timezone.now(), **point
    )
    return PartitionMap.objects.create(
        flow=flow, topic="t", partition=0, generation="g", into="id", position=position
    )


def skipped(
    records: list[InternalRecord], taken: set[int], start: int, end: int
) -> list[list[Run]]:
    """What a flow that reads the target takes for copies."""
    found = ReplicatedRanges()
    for row in records:
        found.put(("runs", BlockKey.from_bytes(row.key or b"")), row.value)
    for row in records:
        if first_of(row) in taken:
            found.put(("runs", BlockKey.from_bytes(row.key or b"")), None)
    return [found.inside(at, at) for at in range(start, end)]


# Each example writes some hundred rows.
@settings(laws, max_examples=20)
@given(
    source=st.lists(st.booleans(), min_size=1, max_size=60),
    stops=st.lists(st.integers(0, 60), max_size=4).map(sorted),
    back=st.sampled_from([0, 0, 2, 9]),
    here=st.integers(0, 60),
    there=st.integers(0, 70),
)
def test_what_lies_in_either_log_is_answered_as_before(
    source: list[bool], stops: list[int], back: int, here: int, there: int
) -> None:
    written, position = copied(source, stops, back)
    end = max(written, default=0) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "BLOCK_RUNS", 2)
        records = topic_of(runs_of(written))
    known = mapped(position)
    build(known, records)
    before = ask(known.flow, "t", *range(position + 2))
    home = back_home(known.flow, there, end)
    due = due_blocks(known, begin_at(known, RetentionBoundary(min(here, position), there)))
    taken = set(due.values_list("first", flat=True))
    due.delete()
    for rebuilt in (False, True):
        if rebuilt:
            build(known, compacted(records, taken))
        for was, is_now in zip(before, ask(known.flow, "t", *range(position + 2)), strict=True):
            held = was.downstream is not None and was.downstream >= there
            if was.upstream >= here or held:
                assert is_now == was
                continue
            unread = [down for down, up in written.items() if up >= was.upstream and down >= there]
            assert (is_now.downstream is None) == (was.downstream is None)
            assert is_now.downstream is None or is_now.downstream <= min(unread, default=end)
        assert back_home(known.flow, there, end) == home
    assert skipped(records, taken, there, end) == skipped(records, set(), there, end)


def begin_at(known: PartitionMap, at: RetentionBoundary) -> RetentionBoundary:
    """Both logs were seen to begin there."""
    known.source_start, known.target_start = at
    known.save(update_fields=["source_start", "target_start"])
    return at


def back_home(flow: Flow, start: int, end: int) -> list[Translation]:
    return upstream_of(there=flow, partitions={TP: range(start, end + 1)})[TP]


def test_the_oldest_block_stays_and_the_one_that_the_border_lies_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "BLOCK_RUNS", 2)
    known = mapped(100)
    build(known, topic_of([Run(at * 10, at * 9, 8) for at in range(10)]))
    # Blocks begin at 0, 20, 40, 60 and 80, on the target at 0, 18, 36, 54 and 72.
    cases = {(99, 99): [20, 40, 60], (79, 99): [20, 40], (99, 53): [20], (60, 54): [20, 40]}
    cases |= {(59, 99): [20], (19, 99): [], (99, 0): []}
    for border, wanted in cases.items():
        due = due_blocks(known, RetentionBoundary(*border)).order_by("first")
        assert list(due.values_list("first", flat=True)) == wanted
    due_blocks(known, begin_at(known, RetentionBoundary(79, 99))).delete()
    answers = ask(known.flow, "t", 3, 19, 25, 59, 61)
    assert [(row.downstream, row.outcome) for row in answers] == [
        (3, "exact"), (54, "gap"), (54, "gap"), (54, "gap"), (55, "exact"),
    ]  # fmt: skip


def delete_before(side: Side, topic: str, offset: int) -> None:
    admin, tp = Admin(side.spec), TopicPartition(topic, 0, offset)
    admin.client.delete_records([tp])[tp].result(20)


def test_on_real_clusters_blocks_go_once_both_logs_begin_behind_them(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "BLOCK_RUNS", 3)
    source, target = sides
    topic, chance = unique("before"), random.Random(7)
    source.make(topic)
    copy = Copy(*sides, commit_interval_ms="20")
    remote = copy.add(topic)
    flow = flow_of(copy)
    for _ in range(3):
        write_some(source, topic, chance, 10)
        copy.copy()
    refresh_index(flow=flow)
    (end,) = copy.ends().values()
    before = ask(flow, topic, *range(end))
    while before[-1].outcome != "exact":
        # What follows the last record is another answer once more is copied.
        before.pop()
    cut = next(row for row in before[end * 2 // 3 :] if row.outcome == "exact")
    blocks, now = RunBlock.objects.filter(map__flow=flow), timezone.now()
    count = blocks.count()
    assert flows_with_runs() == [flow.pk]

    def turn(hours: float) -> int:
        return retire_blocks(flow=flow, now=now + timedelta(hours=hours))

    def check() -> None:
        answers = ask(flow, topic, *range(len(before)))
        assert answers[cut.upstream :] == before[cut.upstream :]
        for was, is_now in zip(before[: cut.upstream], answers, strict=False):
            assert (was.downstream or 0) <= (is_now.downstream or 0) <= (cut.downstream or 0)

    assert turn(0) == turn(1) == 0, "both logs hold all"
    delete_before(source, topic, cut.upstream)
    assert turn(2) == turn(3) == 0, "the target still holds their records"
    delete_before(target, remote, cut.downstream or 0)
    assert turn(4) == turn(4.2) == 0, "who reads may have one of them in hand"
    group = GroupOffset.objects.create(
        flow=flow, group="slow", topic=topic, source_offset=1, partition=0, as_of=now
    )
    assert turn(5) == 0, "a group stands there"
    group.delete()
    comparison = Comparison.objects.create(flow=flow, seconds=9, megabytes=9, requested_by="ann")
    assert turn(6) == 0, "somebody compares"
    comparison.delete()
    gone = turn(7)
    assert gone >= 3
    assert turn(8) == 0
    assert blocks.count() == count - gone
    check()
    # An index that is rebuilt from the topics is the same.
    RunIndex.objects.all().delete()
    PartitionMap.objects.all().delete()
    refresh_index(flow=flow)
    assert blocks.count() == count - gone
    # Until both clusters have said where they begin, it may be that blocks were lost.
    doubted = ask(flow, topic, *range(len(before)))[: cut.upstream]
    assert {row.outcome for row in doubted} <= {"exact", "gap", "unknown"}
    assert any(row.outcome == "unknown" for row in doubted)
    assert turn(9) == 0
    check()
    # And the flow goes on behind what is left.
    write_some(source, topic, chance, 10)
    copy.copy()
    refresh_index(flow=flow)
    check()
    here, there = source.read(topic, start=end), target.read(remote)
    found = ask(flow, topic, *(record.offset for record in here))
    assert [row.downstream for row in found] == [row.offset for row in there[-len(here) :]]

"""Blocks of the run index without brokers: concurrent readers, and the rows after a read."""

from __future__ import annotations

import dataclasses

import pytest

from mirrors.domain.groups.resume import GroupPartition, resume_offset_of
from mirrors.domain.offsets.runs import BlockKey, OpenBlock, Run, pack
from mirrors.domain.offsets.truncation_marks import MARK_BODY, restart_key
from mirrors.kafka.internal_topics.topic import InternalRecord
from mirrors.models import PartitionMap, SyncedPartition
from mirrors.services.offsets.index_refresh import due_flows, is_behind
from mirrors.services.offsets.run_blocks import read_records, remove_blocks, write_blocks
from mirrors.services.offsets.translation import translate_offsets
from tests.mirrors.maps import keep_map
from tests.pages import world as rows

pytestmark = pytest.mark.django_db


def test_workers_read_on_for_flows_that_moved_and_whose_target_answers() -> None:
    still, moved, dead = rows.flow(), rows.flow(), rows.flow(target=rows.cluster(reachable=False))
    for flow in (still, moved, dead):
        keep_map(flow, "orders", 0, [Run(0, 0, 9)], position=9, at_once=1)
        rows.partition(flow, "orders", 0, position=9 if flow is still else 12)
    assert due_flows() == [moved.pk]
    assert not is_behind(flow=still, partitions=[("orders", 0)])
    assert not is_behind(flow=moved, partitions=[("orders", 1)])
    assert is_behind(flow=moved, partitions=[("orders", 0)])


def test_a_partition_whose_records_were_all_dropped_names_the_rule() -> None:
    flow = rows.flow(properties={"transforms": '[{"topics": "orders", "where": "false"}]'})
    for topic in ("orders", "other"):
        rows.partition(flow, topic, 0, position=9, lane="raw")
    rows.partition(flow, "orders", 1, position=0, lane="raw")
    asked = {("orders", 0): [4], ("orders", 1): [0], ("other", 0): [4]}
    found = {tp: row[0] for tp, row in translate_offsets(flow=flow, partitions=asked).items()}
    assert {row.outcome for row in found.values()} == {"unknown"}
    said = "rule 1 of the flow dropped all records of orders-0 that were read so far"
    assert found["orders", 0].reason == said
    assert [tp for tp, row in found.items() if row.all_dropped] == [("orders", 0)]
    place = GroupPartition(
        group="g", topic="orders", partition=0, remote_topic="east.orders", source_offset=4,
        translation=found["orders", 0], source_start=0, source_end=9, target_start=0, target_end=0,
    )  # fmt: skip
    assert resume_offset_of(place) == (0, "exact", f"{said}: the remote partition is empty", 0, 0)
    # Another writer's records are there: no offset is right.
    full = dataclasses.replace(place, target_end=5)
    assert resume_offset_of(full)[:3] == (None, "unknown", said)


def test_a_block_that_was_taken_off_is_out_and_one_that_was_written_behind_is_in() -> None:
    def record(offset: int, first: int, *, taken: bool = False) -> InternalRecord:
        key = BlockKey("orders", 0, "g", first, "id").to_bytes()
        value = None if taken else OpenBlock.begin(Run(first, first, 1)).to_bytes()
        return InternalRecord(0, offset, 0, key, value)

    place = ("orders", 0, "g")
    found = read_records([
        record(10, 1),
        record(11, 2),
        record(12, 1, taken=True),
        record(13, 2, taken=True),
        record(14, 2),
        record(15, 0, taken=True),
        InternalRecord(0, 16, 0, b"not a key", b""),
    ])  # fmt: skip
    assert [(key, block.topic_offset) for key, block in found.last_blocks()] == [(place, 14)]
    assert (found.into, found.topics) == ({place: "id"}, {"orders"})
    known = keep_map(rows.flow(), "orders", 0, [Run(0, 0, 1)], position=9, at_once=1)
    taken = {(known.pk, first) for _, first in found.taken}
    for before, left in ((0, 1), (10, 0)):
        remove_blocks(taken, before=before)
        assert known.blocks.count() == left


def written(offset: int, *runs: Run) -> InternalRecord:
    """One block."""
    (block,) = pack(None, runs).blocks
    key = BlockKey("orders", 0, "g", runs[0].upstream, "id").to_bytes()
    return InternalRecord(0, offset, 0, key, block.to_bytes())


# A hundred records in transactions of ten; of two blocks the second begins within what is lost.
LOST_FROM = 55
BEFORE = [
    written(1, *(Run(at, at + at // 10, 10) for at in range(0, 60, 10))),
    written(2, *(Run(at, at + at // 10, 10) for at in range(60, 100, 10))),
]
# Where it was cut, the source has the marker of a transaction that was aborted.
AFTER = written(4, Run(58, 110, 5))
MARK = InternalRecord(0, 3, 0, restart_key("orders", 0, "g", "id", LOST_FROM).to_bytes(), MARK_BODY)


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_a_source_that_was_cut_has_no_old_copy_from_there_on(at_once: int) -> None:
    flow = rows.flow()
    known = PartitionMap.objects.create(
        flow=flow, topic="orders", partition=0, generation="g", position=63
    )
    SyncedPartition.objects.create(map=known, upstream=99, downstream=108, synced=108)
    records = [*BEFORE, MARK, AFTER]
    for at in range(0, len(records), at_once):
        found = read_records(records[at : at + at_once])
        write_blocks((known.pk, block) for _, block in found.last_blocks())
    partitions = {("orders", 0): range(66)}
    answers = translate_offsets(flow=flow, partitions=partitions)["orders", 0]
    wanted = [
        *(("exact", at + at // 10) for at in range(LOST_FROM)),
        *(("gap", 110) for _ in range(LOST_FROM, 58)),
        *(("exact", 110 + at - 58) for at in range(58, 64)),
        *(("ahead", 115) for _ in range(64, 66)),
    ]
    assert [(answer.outcome, answer.downstream) for answer in answers] == wanted
    # All pairs are written again: a lower one makes MM2's readers drop the others.
    assert not SyncedPartition.objects.filter(map=known).exists()


def test_a_map_that_begins_again_says_nothing_of_what_is_not_copied_again_yet() -> None:
    flow = rows.flow()
    known = PartitionMap.objects.create(
        flow=flow, topic="orders", partition=0, generation="g", position=57
    )
    found = read_records([*BEFORE, MARK])
    write_blocks((known.pk, block) for _, block in found.last_blocks())
    (answer,) = translate_offsets(flow=flow, partitions={("orders", 0): [56]})["orders", 0]
    assert (answer.outcome, answer.downstream) == ("gap", 60)

"""The index of offset runs without brokers: who reads on, and what a read makes of the rows."""

from __future__ import annotations

import pytest

from mirrors.domain.runs import BlockKey, OpenBlock, Run
from mirrors.kafka.internal import InternalRecord
from mirrors.services.offsets.catching_up import due_flows, is_behind
from mirrors.services.offsets.run_rows import read_records, remove_blocks
from tests.mirrors.maps import keep_map
from tests.pages import world as rows

pytestmark = pytest.mark.django_db


def test_workers_read_on_for_flows_that_moved_and_whose_target_answers() -> None:
    still, moved, dead = rows.flow(), rows.flow(), rows.flow(target=rows.cluster(reachable=False))
    for flow in (still, moved, dead):
        keep_map(flow, "orders", 0, [Run(0, 0, 9)], position=9, at_once=1)
        rows.partition(flow, "orders", 0, position=9 if flow is still else 12)
    assert due_flows() == [moved.pk]
    assert not is_behind(flow=still, places=[("orders", 0)])
    assert not is_behind(flow=moved, places=[("orders", 1)])
    assert is_behind(flow=moved, places=[("orders", 0)])


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

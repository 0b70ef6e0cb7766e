"""Retention of skip records: each is deleted with its record; replication is not affected."""

from __future__ import annotations

import pytest

from mirrors.domain.offsets import runs
from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import BlockKey, is_skipped_generation
from mirrors.models import Flow, PartitionMap
from mirrors.services.offsets.retention.skipped_records import flows_with_notes, retire_notes
from mirrors.services.offsets.run_index import refresh_index
from tests.mirrors.test_current_run_retention import delete_before
from tests.mirrors.test_run_index import flow_of
from tests.wire.test_active_active import Pair
from tests.wire.world import Flow as Copy
from tests.wire.world import Side

pytestmark = pytest.mark.django_db


def notes(copy: Copy) -> list[tuple[int, int, int]]:
    """Partition, first offset and end of each block, as compaction will leave them."""
    latest = {record.key: record.value for record in copy.target.read(copy.runs_topic)}
    found = []
    for raw, value in latest.items():
        key = BlockKey.from_bytes(raw or b"")
        if value is not None and is_skipped_generation(key.generation):
            *_, run = read_block(value)
            found.append((key.partition, key.first, run.upstream + run.length))
    return sorted(found)


def test_on_real_clusters_notes_go_once_the_source_begins_behind_them(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "BLOCK_RUNS", 1)
    pair = Pair(*sides)
    back = pair.flows[1]
    flow = flow_of(back)
    Flow.objects.filter(pk=flow.pk).update(properties={"skip.replicated": "true"})
    assert flow.pk in flows_with_notes()
    assert retire_notes(flow=flow) == 0, "nothing was ever copied"
    for turn in range(4):
        for name in pair.sides:
            pair.write(name, range(turn * 4, turn * 4 + 4))
            pair.copy()
    before = notes(back)
    of_first = [row for row in before if row[0] == 0]
    assert len(of_first) >= 3
    assert retire_notes(flow=flow) == 0, "nobody knows which generation is the current one"
    refresh_index(flow=flow)
    assert retire_notes(flow=flow) == 0, "the source holds all"
    delete_before(sides[1], pair.topic, of_first[1][2])
    assert retire_notes(flow=flow) == 2
    assert notes(back) == [row for row in before if row not in of_first[:2]]
    assert retire_notes(flow=flow) == 0
    # The flow goes on, and still leaves out what the other one writes.
    for name in pair.sides:
        pair.write(name, range(16, 20))
        pair.copy()
    rows = [(row.key, row.value) for row in sides[0].read(pair.topic, 0)]
    assert len(rows) == 2 * 3 * 20 // 2
    # Another generation has taken the partition's place: what explained the old one goes as well.
    PartitionMap.objects.filter(flow=flow, partition=0).update(generation="another")
    retire_notes(flow=flow)
    assert [row for row in notes(back) if row[0] == 0] == []

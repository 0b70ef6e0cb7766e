"""What a simulation sees of the source before the flow has seen it."""

from __future__ import annotations

import dataclasses

from mirrors.domain.failover.plan_types import PartitionSnapshot
from mirrors.domain.internal_topics.records import Position
from mirrors.services.failover.source_partitions import _with_deleted_records

ROW = PartitionSnapshot(
    topic="t", partition=2, remote_topic="a.t", position=14, source_start=20, source_end=82
)
STORED = Position(
    topic="t", partition=2, position=14, source_cluster="a", source_topic_id="1",
    target_cluster="b", target_topic_id="2",
)  # fmt: skip


def seen(row: PartitionSnapshot, position: int = 14) -> PartitionSnapshot:
    stored = dataclasses.replace(STORED, position=position)
    return _with_deleted_records(row, {("t", 2): stored}, "east")


def test_records_that_the_source_deleted_before_they_were_copied_are_a_gap_at_once() -> None:
    found = seen(ROW)
    assert found.facts is not None
    assert (found.facts.kind, found.facts.lost) == ("deleted", (14, 19))
    assert found.gap.startswith("t-2 on east now begins at 20: offsets 14 to 19 were deleted")


def test_a_position_within_the_source_or_one_that_the_runner_has_passed_is_none() -> None:
    assert seen(ROW, position=20).facts is None
    # The runner has reported a newer position than the one that was read.
    assert seen(dataclasses.replace(ROW, position=20)).facts is None
    # Without fresh offsets nothing is known.
    assert seen(dataclasses.replace(ROW, source_start=None)).facts is None

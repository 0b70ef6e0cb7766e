"""What MM2's own integration tests ask of two clusters, applied to Understudy
(mm2-upstream-cases.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from mirrors.kafka.admin.groups import GroupOffset, read_offsets, write_offsets
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.protocol.metadata import id_text
from mirrors.models import GroupBookmark, KnownCheckpoint, PartitionMap, RunIndex
from mirrors.models import GroupOffset as Row
from mirrors.services.groups.mm2_checkpoints import emit_checkpoints
from mirrors.services.groups.mm2_offset_syncs import write_offset_syncs
from mirrors.services.groups.survey import discover_groups
from mirrors.services.groups.target_offsets import move_groups
from tests.groups.world import World
from tests.wire.world import unique

MakeWorld = Callable[..., World]
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def places(here: World) -> list[tuple[str, int, int]]:
    """Of the checkpoints: remote topic, partition, downstream offset, as they were written."""
    return [(row.topic, row.partition, row.downstream) for row in here.checkpoints()]


def test_a_partition_without_records_has_no_checkpoint_until_one_crosses_and_keeps_its_place(
    world: MakeWorld,
) -> None:
    group = unique("app")
    here = world(groups=group, sync_group_offsets_enabled="true")
    full, empty = here.topic("full", 2), here.topic("empty")
    here.fill(full, 20)
    here.copy.copy()
    stands = {(full, 0): GroupOffset(20), (full, 1): GroupOffset(0), (empty, 0): GroupOffset(0)}
    write_offsets(here.copy.source.spec, group, stands).raise_first()
    # A consumer that read all of it on the target leaves its place in the empty partitions too.
    remote = {(here.remote(topic), number): row for (topic, number), row in stands.items()}
    write_offsets(here.copy.target.spec, group, remote).raise_first()
    here.do(emit_checkpoints)
    assert places(here) == [(here.remote(full), 0, 20)]
    told = {(row.topic, row.partition): row.sync_state for row in here.rows()}
    assert (told[full, 1], told[empty, 0]) == ("in_sync", "in_sync")
    here.do(move_groups)
    found = read_offsets(here.copy.target.spec, {group: list(remote)}).raise_first().done[group]
    assert found.raise_first().done == remote
    here.fill(empty, 10)
    here.copy.copy()
    here.commit(group, empty, 10)
    here.do(emit_checkpoints)
    assert places(here) == [(here.remote(full), 0, 20), (here.remote(empty), 0, 10)]


@pytest.mark.parametrize("lag", ["10", "0"])
def test_one_way_groups_follow_to_the_end_and_over_restarts_and_a_topic_that_joins(
    world: MakeWorld, lag: str
) -> None:
    group = unique("app")
    here = world(groups=group, sync_group_offsets_enabled="true", offset_lag_max=lag)
    topic, ends = here.topic("orders"), []
    for count in (100, 200):
        here.fill(topic, 100)
        here.copy.copy()
        here.commit(group, topic, count)
        here.do(emit_checkpoints)
        here.do(move_groups)
        # MM2 may stand back by the lag; the exact map leads to the very end.
        ends.append(max(here.truth(topic).values()) + 1)
        assert here.stands(group, topic) == GroupOffset(ends[-1])
        # A worker that starts again with an empty memory.
        for model in (RunIndex, PartitionMap, Row, GroupBookmark, KnownCheckpoint):
            model.objects.all().delete()
    second = here.topic("second")
    here.fill(second, 30)
    here.copy.copy()
    here.commit(group, second, 30)
    here.do(discover_groups)
    here.do(emit_checkpoints)
    here.do(move_groups)
    assert here.stands(group, second) == GroupOffset(30)
    assert places(here) == [
        *((here.remote(topic), 0, end) for end in ends),
        (here.remote(second), 0, 30),
    ]
    with Admin(here.copy.source.spec) as admin:
        there = {f"{here.copy.target.spec.alias}.{here.remote(name)}" for name in (topic, second)}
        assert not there & set(admin.topic_names())


def test_a_lagging_groups_checkpoint_goes_on_to_nine_tenths_and_back_to_one(
    world: MakeWorld,
) -> None:
    group = unique("app")
    here = world(groups=group, offset_lag_max="10", **{"offset-syncs.topic.location": "target"})
    topic = here.topic("orders")
    here.fill(topic, 1000)
    here.copy.copy()
    here.do(write_offset_syncs)
    for offset in (10, 900, 100):
        here.commit(group, topic, offset)
        here.do(emit_checkpoints)
    assert [row for _, _, row in places(here)] == [10, 900, 100]


def test_with_unchanged_names_groups_follow_in_topics_of_the_same_name(world: MakeWorld) -> None:
    group = unique("app")
    here = world(groups=group, sync_group_offsets_enabled="true", replication_policy_class=IDENTITY)
    topic = here.topic("orders")
    made = here.copy.target.make(topic)
    here.copy.rows = [
        dataclasses.replace(row, remote_topic=topic, remote_topic_id=id_text(made.topic_id))
        for row in here.copy.rows
    ]
    here.fill_badly(topic, 5, 14)
    here.copy.copy()
    end = here.copy.ends()[topic, 0]
    here.commit(group, topic, end)
    here.do(emit_checkpoints)
    here.do(move_groups)
    (last,) = here.copy.target.ends(topic, committed=True).values()
    (checkpoint,) = here.checkpoints()
    assert (checkpoint.topic, checkpoint.upstream) == (topic, end)
    tp = (topic, 0)
    found = read_offsets(here.copy.target.spec, {group: [tp]}).raise_first().done[group]
    stands = found.raise_first().done[tp].offset
    assert stands == checkpoint.downstream <= last
    assert here.copy.target.read(topic, start=stands) == []

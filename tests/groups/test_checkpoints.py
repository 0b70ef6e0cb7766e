"""Checkpoints: exact at every offset, in MM2's bytes and topic, and no duplicate."""

from __future__ import annotations

from collections.abc import Callable

from mirrors.domain.internal_topics.records import Checkpoint
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import NewRecord, append
from mirrors.models import GroupBookmark, GroupOffset, KnownCheckpoint
from mirrors.services.groups.mm2_checkpoints import emit_checkpoints
from mirrors.services.groups.survey import discover_groups
from tests.groups.world import World
from tests.wire.world import unique

MakeWorld = Callable[..., World]


def test_every_offset_has_the_checkpoint_that_a_scan_of_the_target_says(world: MakeWorld) -> None:
    stem = unique("every")
    here = world(groups=f"{stem}-.*")
    topic = here.topic("orders")
    here.fill_badly(topic, 7, 14)
    here.copy.copy()
    truth, end = here.truth(topic), here.copy.ends()[topic, 0]
    assert len(truth) < end, "no abort left a hole"
    for offset in range(end + 1):
        here.commit(f"{stem}-{offset}", topic, offset, f"späße {offset}")
    outcome = here.do(emit_checkpoints)
    assert outcome.counts == {"groups": end + 1, "partitions": end + 1, "emitted": end + 1}
    last = max(truth.values()) + 1
    for found in here.checkpoints():
        following = [down for up, down in sorted(truth.items()) if up >= found.upstream]
        assert found.downstream == (following[0] if following else last), found
        assert found.group == f"{stem}-{found.upstream}"
        assert found.metadata == f"späße {found.upstream}"
        assert (found.topic, found.partition) == (here.remote(topic), 0)
    again = here.do(emit_checkpoints)
    assert again.counts["emitted"] == 0
    assert again.reasons == ()
    # The database is a cache: wiped, it learns from the topic what was emitted.
    for model in (GroupOffset, GroupBookmark, KnownCheckpoint):
        model.objects.all().delete()
    assert here.do(emit_checkpoints).counts["emitted"] == 0
    assert len(here.checkpoints()) == end + 1


def test_checkpoints_go_on_and_back_with_the_group_whoever_wrote_the_last(
    world: MakeWorld,
) -> None:
    group = unique("app")
    here = world(groups=group)
    topic = here.topic("orders")
    here.fill(topic, 50)
    here.copy.copy()
    told = []
    for offset in (10, 30, 30, 5):
        here.commit(group, topic, offset)
        here.do(emit_checkpoints)
        told.append(len(here.checkpoints()))
    assert told == [1, 2, 2, 3]
    assert [row.upstream for row in here.checkpoints()] == [10, 30, 5]
    # An MM2 that ran before a takeover, or beside us, is read like our own.
    theirs = Checkpoint(group, here.remote(topic), 0, 20, 18)
    name = f"{here.alias}.checkpoints.internal"
    append(here.copy.target.spec, name, [NewRecord(theirs.key, theirs.value, 0)])
    here.commit(group, topic, 20)
    here.do(emit_checkpoints)
    assert [row.downstream for row in here.checkpoints()][-2:] == [18, here.truth(topic)[20]]


def test_the_topic_is_mm2s_and_no_broker_too_few_stops_it(world: MakeWorld) -> None:
    group = unique("app")
    here = world(groups=group, replication_policy_separator="_")
    here.do(emit_checkpoints)
    name = f"{here.alias}_checkpoints_internal"
    with Admin(here.copy.target.spec) as admin:
        made = admin.snapshot([name], now=0).topics[name]
    assert (made.partitions, made.replication_factor) == (1, 1)
    assert made.config("cleanup.policy") == "compact"


def test_groups_are_chosen_by_their_filters_and_each_left_out_says_why(world: MakeWorld) -> None:
    stem = unique("app")
    here = world(groups=f"{stem}.*", groups_exclude=".*-tmp")
    topic, other = here.topic("orders"), unique("private")
    here.copy.source.make(other, 1)
    here.select(other)
    here.set(topics_exclude=other)
    here.fill(topic, 10)
    here.fill(other, 10)
    here.copy.copy()
    for group, name in ((f"{stem}-tmp", topic), (stem, topic), (stem, other)):
        here.commit(group, name, 5)
    outcome = here.do(discover_groups)
    assert outcome.counts["groups"] == 1
    here.do(emit_checkpoints)
    assert {row.group for row in here.checkpoints()} == {stem}
    (out,) = here.rows(group=f"{stem}-tmp")
    assert (out.sync_state, out.reason) == ("excluded", "matches groups.exclude (.*-tmp)")
    (skipped,) = here.rows(topic=other)
    assert skipped.sync_state == "not_copied"
    assert skipped.reason == f"it is not replicated: matches topics.exclude ({other})"
    # A setting that changed counts at once, without another look.
    here.set(groups_exclude=f"{stem}.*")
    assert here.do(emit_checkpoints).counts["groups"] == 0


def test_a_group_that_comes_later_is_found_by_the_next_look_alone(world: MakeWorld) -> None:
    stem = unique("app")
    here = world(groups=f"{stem}.*")
    topic = here.topic("orders")
    here.fill(topic, 10)
    here.copy.copy()
    here.commit(f"{stem}-1", topic, 5)
    here.do(emit_checkpoints)
    here.commit(f"{stem}-2", topic, 6)
    assert here.do(emit_checkpoints).counts["groups"] == 1
    here.do(discover_groups)
    assert [row.sync_state for row in here.rows(group=f"{stem}-2")] == ["waiting"]
    assert here.do(emit_checkpoints).counts["groups"] == 2
    assert len(here.checkpoints()) == 2

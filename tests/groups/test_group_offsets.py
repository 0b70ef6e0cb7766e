"""Group offsets on the target follow the source; a group that must not move does not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest
from confluent_kafka import ShareConsumer, TopicPartition

from mirrors.kafka.admin.groups import GroupOffset, list_groups
from mirrors.kafka.admin.topics import Admin
from mirrors.models import GroupOffset as Row
from mirrors.services.groups.mm2_checkpoints import emit_checkpoints
from mirrors.services.groups.survey import discover_groups
from mirrors.services.groups.target_offsets import move_groups
from tests.groups.world import World
from tests.mirrors.simulated_flow import simulate
from tests.wire.world import unique

MakeWorld = Callable[..., World]


def said(world: World, group: str) -> tuple[str, str]:
    (row,) = world.rows(group=group)
    return row.sync_state, row.reason


def test_idle_groups_follow_forward_and_back_with_their_metadata(world: MakeWorld) -> None:
    stem = unique("app")
    here = world(groups=f"{stem}.*", sync_group_offsets_enabled="true")
    topic = here.topic("orders")
    here.fill_badly(topic, 3, 20)
    here.copy.copy()
    truth = sorted(here.truth(topic).items())
    (low, _), (middle, there), (high, far) = truth[3], truth[10], truth[20]
    fresh, behind, beyond = (f"{stem}-{name}" for name in ("fresh", "behind", "beyond"))
    for group in (fresh, behind, beyond):
        here.commit(group, topic, middle, "späße · 漢字")
    here.commit_there(behind, topic, 1)
    here.commit_there(beyond, topic, far)
    outcome = here.do(move_groups)
    assert outcome.counts == {"groups": 3, "partitions": 3, "moved": 2, "in_sync": 0}
    assert here.stands(fresh, topic) == GroupOffset(there, "späße · 漢字")
    assert here.stands(behind, topic) == GroupOffset(there, "späße · 漢字")
    assert here.stands(beyond, topic) == GroupOffset(far)
    assert said(here, beyond)[0] == "kept"
    assert f"on the target is {far}, {far - there} ahead" in said(here, beyond)[1]
    assert here.do(move_groups).counts["moved"] == 0
    assert said(here, fresh)[0] == "in_sync"
    # Reset backwards on the source: followed, but for the one that consumed on the target since.
    here.commit_there(behind, topic, far)
    for group in (fresh, behind):
        here.commit(group, topic, low)
    assert here.do(move_groups).counts["moved"] == 1
    assert here.stands(fresh, topic) == GroupOffset(dict(truth)[low])
    assert here.stands(behind, topic) == GroupOffset(far)
    assert "reset to an earlier offset" in said(here, fresh)[1]
    assert said(here, behind)[0] == "kept"
    # And forward again, beyond what was copied: to its end, not further.
    here.fill(topic, 10)
    here.commit(fresh, topic, here.copy.ends()[topic, 0])
    here.do(move_groups)
    (row,) = here.rows(group=fresh)
    assert (row.sync_state, row.outcome) == ("moved", "ahead")
    assert row.target_offset == truth[-1][1] + 1
    assert high < row.source_offset


def test_a_group_in_a_partition_that_is_empty_on_both_sides_is_placed_at_its_beginning(
    world: MakeWorld,
) -> None:
    group = unique("app")
    here = world(groups=group, sync_group_offsets_enabled="true")
    topic = here.topic("orders")
    here.copy.copy()
    here.commit(group, topic, 0)
    assert here.do(move_groups).counts["moved"] == 1
    assert here.stands(group, topic) == GroupOffset(0)
    assert said(here, group)[0] == "moved"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_on_the_target_stays_where_it_is(
    world: MakeWorld, protocol: str
) -> None:
    stem = unique("app")
    here = world(groups=f"{stem}.*", sync_group_offsets_enabled="true")
    topic = here.topic("orders")
    here.fill(topic, 20)
    here.copy.copy()
    busy, idle = f"{stem}-busy", f"{stem}-idle"
    for group in (busy, idle):
        here.commit(group, topic, 10)
    with here.member(busy, topic, **{"group.protocol": protocol}) as consumer:
        consumer.commit(offsets=[TopicPartition(here.remote(topic), 0, 2)], asynchronous=False)
        here.do(move_groups)
        assert here.stands(busy, topic) == GroupOffset(2)
        assert here.stands(idle, topic) == GroupOffset(10)
        state, reason = said(here, busy)
        assert state == "active"
        assert reason.endswith("on the target: it has members there, or is about to")
    until = time.monotonic() + 15
    while said(here, busy)[0] != "moved" and time.monotonic() < until:
        here.do(move_groups)
    # The consumer group of KIP-848 left idle is moved like any other.
    assert here.stands(busy, topic) == GroupOffset(10)


def test_what_is_gone_on_either_side_stops_nobody_else(world: MakeWorld) -> None:
    stem = unique("app")
    here = world(groups=f"{stem}.*", sync_group_offsets_enabled="true")
    kept, gone, lost = (here.topic(name) for name in ("kept", "gone", "lost"))
    for topic in (kept, gone, lost):
        here.fill(topic, 20)
    here.copy.copy()
    both, expired = f"{stem}-both", f"{stem}-expired"
    for topic in (kept, gone, lost):
        here.commit(both, topic, 10)
    here.commit(expired, kept, 10)
    assert here.do(move_groups).counts["moved"] == 4
    here.delete(here.copy.target, here.remote(gone))
    here.delete(here.copy.source, lost)
    with Admin(here.copy.source.spec) as admin:
        for future in admin.client.delete_consumer_groups([expired]).values():
            future.result()
    here.commit(both, kept, 15)
    here.do(discover_groups)
    here.do(emit_checkpoints)
    told = {(row.group, row.topic): (row.sync_state, row.reason) for row in here.rows()}
    assert told[both, gone] == ("unknown", f"{here.remote(gone)}-0 does not exist on the target")
    for place in ((both, lost), (expired, kept)):
        assert told[place][0] == "unknown"
        assert (
            "no offset here on the source: none committed yet, expired, or deleted"
            in told[place][1]
        )
    outcome = here.do(move_groups)
    assert outcome.counts["moved"] == 1
    assert len(outcome.reasons) == 2
    assert here.stands(both, kept) == GroupOffset(15)
    assert here.stands(expired, kept) == GroupOffset(10)


def test_by_default_nothing_moves_and_the_row_says_which_switch(world: MakeWorld) -> None:
    group = unique("app")
    here = world(groups=group)
    topic = here.topic("orders")
    here.fill(topic, 20)
    here.copy.copy()
    here.commit(group, topic, 10)
    here.do(emit_checkpoints)
    assert said(here, group) == ("off", "sync.group.offsets.enabled is false")
    assert here.stands(group, topic) is None
    here.set(sync_group_offsets_enabled="true")
    here.do(emit_checkpoints)
    assert said(here, group)[0] == "waiting"
    assert here.stands(group, topic) is None
    Row.objects.all().delete()
    here.do(move_groups)
    (row,) = here.rows(group=group)
    assert (row.sync_state, row.source_offset, row.target_offset) == ("moved", 10, 10)


def test_where_two_directions_share_a_topic_no_group_is_led_past_the_others_records(
    world: MakeWorld,
) -> None:
    group = unique("app")
    here = world(groups=group, sync_group_offsets_enabled="true", skip_replicated="true")
    topic = here.topic("orders")
    here.fill(topic, 20)
    here.copy.copy()
    here.commit(group, topic, 10)
    assert here.do(emit_checkpoints).counts["emitted"] == 0
    assert here.do(move_groups).counts["moved"] == 0
    state, reason = said(here, group)
    assert state == "unknown"
    assert reason.startswith("with skip.replicated, one topic holds records of both directions")


def test_a_group_whose_name_a_share_group_has_taken_is_always_said_so(world: MakeWorld) -> None:
    group = unique("app")
    here = world(groups=group, sync_group_offsets_enabled="true")
    topic = here.topic("orders")
    here.fill(topic, 20)
    here.copy.copy()
    here.commit(group, topic, 10)
    servers = here.copy.target.spec.bootstrap_servers
    sharing = ShareConsumer({"bootstrap.servers": servers, "group.id": group})
    with contextlib.closing(sharing):
        sharing.subscribe([here.remote(topic)])
        until = time.monotonic() + 20
        while list_groups(here.copy.target.spec).get(group) is None:
            assert time.monotonic() < until
            sharing.poll(0.1)
        for act in (move_groups, emit_checkpoints, move_groups):
            here.do(act)
            (row,) = here.rows(group=group)
            taken = f"a share group has this name on {here.flow.target.alias}"
            assert (row.sync_state, row.reason) == ("failed", taken)
        run = simulate(here.flow, group)
        assert [(row["code"], row["where"]) for row in run.plan["blockers"]] == [
            ("name_taken", group)
        ]
        (read,) = run.result["partitions"]
        assert read["verdict"] == "proven"

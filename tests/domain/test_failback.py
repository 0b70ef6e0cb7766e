"""Failback properties: the union minus discarded records, no loop, no group beyond its offset."""

from __future__ import annotations

import base64
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.failback.divergence import (
    Divergence,
    divergence_topic,
    merge_points,
)
from mirrors.domain.failback.orphans import record_as_json
from mirrors.domain.failback.reverse_flow import (
    Side,
    plan_starts,
    reverse_properties,
    skipped_topics,
    starts_sentence,
    without_topics,
)
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.settings.table import TOPICS_EXCLUDE
from tests.domain.failback_cases import BACK, TOPIC, Log, World, position, side, worlds


@given(worlds, st.booleans(), st.integers(0, 12))
def test_both_sides_are_the_union_minus_what_was_dropped_whatever_comes_first(
    world: World, replay: bool, early: int
) -> None:
    world.back.go(early)
    world.settle(replay=replay)
    world.back.go(len(world.b.rows))
    here, there = world.a.names(), world.b.names()
    assert len(set(here)) == len(here)
    assert len(set(there)) == len(there)
    dropped = [] if replay else [f"o{at}" for at in range(world.stretch.offsets)]
    assert sorted(here) == sorted(there + dropped)
    # Both go on for ever, and nothing moves any more.
    ends = len(world.a.rows), len(world.b.rows)
    world.there.other = world.back
    for _ in range(3):
        world.there.go(len(world.a.rows))
        world.back.go(len(world.b.rows))
    assert (world.a.names(), world.b.names()) == (here, there)
    assert ends == (len(world.a.rows), len(world.b.rows))


@given(worlds, st.booleans(), st.booleans())
def test_no_group_is_led_past_what_it_has_not_read_and_none_below_the_divergence_reads_again(
    world: World, decided: bool, replay: bool
) -> None:
    if decided:
        world.settle(replay=replay)
    world.back.go(len(world.b.rows))
    dropped = {f"o{at}" for at in range(world.stretch.offsets)} if decided and not replay else set()
    for asked in range(len(world.b.rows) + 1):
        read = set(Log(world.b.rows[:asked]).names())
        unread = set(world.a.names()) - read - dropped
        place = world.place(asked, undecided=not decided)
        rest = set(world.a.names(place))
        assert unread <= rest
        if asked < world.point.downstream and not dropped:
            assert rest == unread
        if decided and not world.stretch.offsets:
            assert rest == unread


def test_a_divergence_point_is_read_back_as_it_was_written() -> None:
    point = World([3], 2, [True]).point
    assert Divergence.read(point.key, point.value) == point
    assert (point.position, point.downstream, point.end, point.how) == (3, 3, 4, "runs")
    assert divergence_topic("a") == "mm2-divergence.a.internal"
    for value in (None, b"{}", b'{"v": 9}'):
        with pytest.raises(MalformedRecord):
            Divergence.read(point.key, value)


def test_the_first_point_of_a_promotion_counts_and_a_later_one_passes_no_own_record() -> None:
    first = World([3], 0, []).point
    later = dataclasses.replace(first, position=9, downstream=20, end=21)
    assert merge_points(first, later) == first
    again = dataclasses.replace(later, mark="failover-2")
    kept = merge_points(first, again)
    assert (kept.position, kept.downstream, kept.mark) == (9, first.downstream, "failover-2")
    other = dataclasses.replace(again, target_topic_id="made again")
    assert merge_points(first, other) == other
    assert merge_points(None, again) == again


def test_the_way_back_does_not_begin_where_the_old_primary_is_another_or_lost_records() -> None:
    world = World([5], 0, [])
    good, new = side("A", "ta", world.a), side("B", "tb", world.b)
    for old, words in (
        (dataclasses.replace(good, topic_ids={}), "is missing"),
        (
            dataclasses.replace(good, topic_ids={TOPIC: "other"}),
            "not the topic that was replicated",
        ),
        (dataclasses.replace(good, end={(TOPIC, 0): 3}), "it lost 2 replicated offsets"),
    ):
        (start,) = plan_starts([world.point], BACK, {}, old=old, new=new)
        assert start.kind == "blocked"
        assert words in start.reason
    moved = dataclasses.replace(new, topic_ids={TOPIC: "made again"})
    (start,) = plan_starts([world.point], BACK, {}, old=good, new=moved)
    assert start.kind == "blocked"


def test_what_had_gone_before_the_other_side_took_over_keeps_nobody_from_going_back() -> None:
    world, tp = World([5], 0, []), (TOPIC, 0)
    good, new = side("A", "ta", world.a), side("B", "tb", world.b)
    old, other = (dataclasses.replace(good, topic_ids={}, cluster=name) for name in ("A", "C"))
    point = dataclasses.replace(world.point, source_cluster="A")
    nowhere = dataclasses.replace(new, topic_ids={})
    for here, there, gone, kind in (
        (old, new, {tp}, "gone"),
        (old, new, set(), "blocked"),
        (old, nowhere, set(), "gone"),
        (other, new, {tp}, "blocked"),
        (other, nowhere, {tp}, "blocked"),
        (good, new, {tp}, "divergence"),
    ):
        (start,) = plan_starts([point], BACK, {}, old=here, new=there, deleted=gone)
        assert start.kind == kind, start
        assert (start.row is None) == (kind != "divergence")


def test_it_is_told_what_becomes_of_what_is_left_of_them() -> None:
    world = World([5], 0, [])
    old = dataclasses.replace(side("A", "ta", world.a), topic_ids={})
    new = dataclasses.replace(side("B", "tb", world.b), topic_ids={TOPIC: "tb", "a.orders": "tb"})
    prefixed = dataclasses.replace(world.point, remote_topic="a.orders")
    default = dataclasses.replace(BACK, kind="default")
    for point, back, words in (
        (world.point, BACK, "creates it again, for what was written on b only"),
        (prefixed, default, "a.orders on b is not changed"),
    ):
        (start,) = plan_starts([point], back, {}, old=old, new=new, deleted={(TOPIC, 0)})
        assert words in start.reason
        assert "1 partition left out" in starts_sentence([start], "b->a")


def test_a_blocked_partition_leaves_its_whole_topic_out_and_no_other_topic() -> None:
    world = World([5], 0, [])
    ids = {TOPIC: "ta", "cut": "tc"}
    first = dict.fromkeys([(TOPIC, 0), ("cut", 0), ("cut", 1)], 0)
    end = {(TOPIC, 0): 9, ("cut", 0): 9, ("cut", 1): 1}
    old = Side(cluster="A", topic_ids=ids, first=first, end=end)
    new = dataclasses.replace(old, cluster="B", topic_ids={TOPIC: "tb", "cut": "td"})
    points = [
        world.point,
        *(
            dataclasses.replace(
                world.point, topic="cut", remote_topic="cut", partition=number, position=5,
                source_topic_id="tc", target_topic_id="td",
            )
            for number in range(2)
        ),
    ]  # fmt: skip
    starts = plan_starts(points, BACK, {}, old=old, new=new)
    assert [start.kind for start in starts] == ["divergence", "blocked", "blocked"]
    assert "because of partition 1" in starts[1].reason
    assert skipped_topics(starts, BACK) == ["cut"]
    assert "1 topic (2 partitions)" in starts_sentence(starts, "b->a")
    properties = without_topics({"topics": ".*"}, ["cut", "a.b"])
    assert properties["topics.exclude"] == f"{TOPICS_EXCLUDE},cut,a\\.b"
    assert without_topics(properties, ["cut"]) == properties


def test_a_partition_that_the_recreated_topic_no_longer_has_begins_where_both_sides_diverged() -> (
    None
):
    world = World([5], 0, [])
    point = dataclasses.replace(world.point, partition=3)
    old = dataclasses.replace(side("A", "recreated", world.a), topic_ids={TOPIC: "recreated"})
    new = side("B", "tb", world.b)
    (start,) = plan_starts([point], BACK, {}, old=old, new=new)
    assert (start.kind, start.offset) == ("divergence", point.downstream)
    assert start.row is not None
    assert start.row.target_topic_id == "recreated"
    assert "recreated there with fewer partitions" in start.reason


def test_what_cannot_be_looked_at_is_left_out_with_the_reason() -> None:
    world = World([5], 0, [])
    sides = {"old": side("A", "ta", world.a), "new": side("B", "tb", world.b)}
    for name in ("old", "new"):
        undescribed = dataclasses.replace(sides[name], undescribed={TOPIC: "not authorized."})
        (start,) = plan_starts([world.point], BACK, {}, **{**sides, name: undescribed})
        assert (start.kind, "not authorized" in start.reason) == ("blocked", True)


def test_a_flow_back_that_ran_before_goes_on_where_it_stood() -> None:
    world = World([5], 0, [True])
    here = dataclasses.replace(
        position(2), source_cluster="B", source_topic_id="tb", target_cluster="A",
        target_topic_id="ta",
    )  # fmt: skip
    sides = {"old": side("A", "ta", world.a), "new": side("B", "tb", world.b)}
    (start,) = plan_starts([world.point], BACK, {(TOPIC, 0): here}, **sides)
    assert (start.kind, start.offset, start.row) == ("goes_on", 2, None)
    default = dataclasses.replace(BACK, kind="default")
    remote = dataclasses.replace(world.point, remote_topic="a.orders")
    sides["new"] = dataclasses.replace(sides["new"], topic_ids={"a.orders": "tb"})
    (start,) = plan_starts([remote], default, {}, **sides)
    assert start.kind == "names"


def test_the_flow_back_begins_where_it_must_whatever_the_flow_there_was_told() -> None:
    there = {
        "topics": "orders", "start.from": "latest", "run.until": "now", "delivery": "at_least_once",
        "source.consumer.auto.offset.reset": "latest",
    }  # fmt: skip
    assert reverse_properties(there, BACK) == {
        "topics": "orders", "delivery": "exactly_once", "skip.replicated": "true"
    }  # fmt: skip
    default = dataclasses.replace(BACK, kind="default")
    assert reverse_properties(there, default) == {"topics": "orders", "delivery": "at_least_once"}


@given(st.none() | st.binary(), st.none() | st.binary())
def test_a_listed_orphan_keeps_every_byte(key: bytes | None, value: bytes | None) -> None:
    row = record_as_json(offset=7, timestamp=9, key=key, value=value, headers=[("h", value)])
    for found, name, data in (
        (row, "key", key),
        (row, "value", value),
        (row["headers"][0], "value", value),
    ):
        if f"{name}_base64" in found:
            assert base64.b64decode(found[f"{name}_base64"]) == data
        else:
            assert found[name] == (None if data is None else data.decode())

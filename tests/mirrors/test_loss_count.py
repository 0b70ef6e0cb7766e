"""Records that a run left on the source, counted when the source is back."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions
from django.utils import timezone

from mirrors.domain.cluster_snapshot import ClusterSnapshot
from mirrors.kafka.admin.groups import GroupOffset, write_offsets
from mirrors.kafka.admin.topics import Admin
from mirrors.models import FailoverRun, FailoverStep
from mirrors.services.failover.runbook.steps.loss_count import CountedLoss, count_run
from mirrors.services.offsets import divergence_points
from tests.groups.world import World
from tests.mirrors.simulated_flow import simulate
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(sides: tuple[Side, Side]) -> World:
    return World.make(*sides, topics="none-yet")


def looked(world: World) -> FailoverRun:
    """The plan of a run as of now, and where both sides part."""
    world.flow.refresh_from_db()
    run = simulate(world.flow)
    divergence_points.store_points(flow=world.flow, mark="it", now=timezone.now())
    return run


def counted(world: World, run: FailoverRun) -> CountedLoss:
    world.flow.refresh_from_db()
    return count_run(run=run, flow=world.flow, now=timezone.now(), tick=lambda: None)


def sentence(found: CountedLoss) -> str:
    return str(found.to_dict(source="east")["sentence"])


def recreate(world: World, topic: str, records: int, partitions: int = 1) -> None:
    world.delete(world.copy.source, topic)
    world.copy.source.make(topic, partitions)
    world.fill(topic, records)


def grow(world: World, topic: str, partitions: int) -> None:
    new = NewPartitions(topic, partitions)
    source = world.copy.source
    source.admin.client.create_partitions([new])[topic].result(20)
    source.view(topic, partitions)


def test_a_topic_and_partitions_that_came_after_the_last_look_count(world: World) -> None:
    topic = world.topic("orders")
    world.fill(topic, 30)
    world.copy.copy()
    run = looked(world)
    late = world.topic("late", 2)
    world.fill(late, 20)
    world.fill(late, 5, partition=1)
    grow(world, topic, 3)
    world.fill(topic, 7, partition=2)
    world.fill(topic, 4)

    found = counted(world, run)

    assert (found.loss.records, found.loss.certainty) == (36, "counted")
    rows = {(row["topic"], row["partition"]): row["records"] for row in found.partitions}
    expected = {(topic, 0): 4, (topic, 1): 0, (topic, 2): 7, (late, 0): 20, (late, 1): 5}
    assert rows == expected


def test_of_records_that_a_rule_filters_at_most_so_many_are_lost(world: World) -> None:
    topic, other = world.topic("orders"), world.topic("other")
    world.fill(topic, 10)
    world.copy.copy()
    run = looked(world)
    world.fill(topic, 4)
    world.fill(other, 3)
    rule = f'[{{"topics": "{topic}", "where": "value is not null"}}]'
    world.flow.properties |= {"transforms": rule}
    world.flow.save()

    found = counted(world, run)

    rows = {row["topic"]: (row["records"], row["certainty"]) for row in found.partitions}
    assert rows == {topic: (4, "at_most"), other: (3, "counted")}
    assert (found.loss.records, found.loss.certainty) == (7, "at_most")


def test_a_late_topic_that_cannot_be_described_is_an_unknown_loss(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = world.topic("orders")
    world.fill(topic, 10)
    world.copy.copy()
    run = looked(world)
    late = world.topic("late")
    world.fill(late, 20)
    snapshot = Admin.snapshot

    def without_late(self: Admin, *given: Any, **how: Any) -> ClusterSnapshot:
        seen = snapshot(self, *given, **how)
        topics = {name: state for name, state in seen.topics.items() if name != late}
        return dataclasses.replace(seen, topics=topics, failed={late: "The leader is moving."})

    monkeypatch.setattr(Admin, "snapshot", without_late)
    found = counted(world, run)

    assert (found.loss.records, found.loss.certainty, found.loss.unknown) == (None, "unknown", 1)
    (row,) = [row for row in found.partitions if row["topic"] == late]
    assert row["reason"] == "The leader is moving."


def test_what_the_plan_could_not_describe_stays_unknown_once_it_is_not_selected(
    world: World,
) -> None:
    world.topic("orders")
    hidden = unique("hidden")
    world.copy.source.make(hidden)
    world.copy.copy()
    run = looked(world)
    remote = world.remote(hidden)
    whole = {"topic": hidden, "partition": -1, "remote_topic": remote, "position": None}
    run.plan["not_copied"].append(whole | {"owed_from": None})

    found = counted(world, run)
    assert (found.loss.records, found.loss.unknown) == (None, 1)

    world.select(hidden)
    world.fill(hidden, 6)
    found = counted(world, run)
    assert (found.loss.records, found.loss.certainty) == (6, "counted")


def test_a_recreated_topic_that_the_run_knew_of_is_counted_although_nothing_of_it_was_copied(
    world: World,
) -> None:
    topic = world.topic("orders")
    world.copy.copy()
    world.fill(topic, 10)
    world.copy.copy()
    recreate(world, topic, 25)
    run = looked(world)
    world.fill(topic, 5)

    found = counted(world, run)

    assert (found.loss.records, found.loss.certainty) == (30, "counted")


def test_a_recreated_topic_whose_old_position_is_0_is_counted(world: World) -> None:
    """The run knew that it was recreated, and it owes from the offset that was the position."""
    topic = world.topic("orders", 2)
    world.fill(topic, 10, partition=1)
    world.copy.copy()
    recreate(world, topic, 25, partitions=2)
    run = looked(world)

    found = counted(world, run)

    assert (found.loss.records, found.loss.certainty) == (25, "counted"), found.partitions


def test_of_a_topic_recreated_after_the_last_look_all_that_it_holds_counts(world: World) -> None:
    """What it held before is gone, and nobody knows how much of it was not replicated."""
    topic, other = world.topic("orders"), world.topic("payments")
    for name in (topic, other):
        world.fill(name, 10)
    world.copy.copy()
    run = looked(world)
    recreate(world, topic, 25)
    world.fill(other, 3)

    found = counted(world, run)

    assert (found.loss.records, found.loss.certainty, found.loss.unknown) == (28, "at_least", 1)
    assert "at least 28 records were not replicated" in sentence(found)
    assert f"unknown for 1 partition of {topic}" in sentence(found)
    (row,) = [row for row in found.partitions if row["topic"] == topic]
    assert row["records"] == 25
    assert f"{topic} was recreated on" in row["reason"]
    # Until somebody recreates it once more, its new log is known, and it is counted.
    run = looked(world)
    assert counted(world, run).loss.records == 28


def test_a_group_at_the_begin_of_what_was_never_copied_reads_nothing_again(world: World) -> None:
    topic, group = world.topic("orders", 2), unique("app")
    world.fill(topic, 10)
    world.copy.copy()
    world.copy.rows = [row for row in world.copy.rows if row.partition == 0]
    world.fill(topic, 6, partition=1)
    stands = {(topic, 1): GroupOffset(0)}
    write_offsets(world.copy.source.spec, group, stands).raise_first()
    run = looked(world)
    moved = {
        "group": group,
        "topic": topic,
        "partition": 1,
        "remote_topic": world.remote(topic),
        "to": 0,
        "state": "moved",
    }
    FailoverStep.objects.create(
        run=run, number=6, name="reset_groups", does="Set", result={"rows": [moved]}
    )

    found = counted(world, run)

    assert (found.loss.records, found.loss.certainty) == (6, "counted")
    assert (found.re_reads.records, found.re_reads.certainty) == (0, "counted"), found.places

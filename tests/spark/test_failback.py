"""A to B, failover to B, failback to A, A to B again: no loss but discarded records, no loop."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import NewPartitions

from mirrors.models import Divergence, Flow, OrphanStretch
from mirrors.services.failback import groups, lifecycle, orphan_resolution
from mirrors.services.flows.commands import start_flow, stop_flow
from mirrors.services.offsets import divergence_points
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.spark.failback_stage import WHO, FailbackFlows
from tests.spark.lab import Lab
from tests.spark.round_trip import (
    IDENTITY,
    decide,
    fail_over,
    numbered,
    switch,
    there_and_back_again,
)
from tests.spark.switching import Readers, Writers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ways(lab: Lab) -> Iterator[list[FailbackFlows]]:
    found: list[FailbackFlows] = []
    yield found
    for way in found:
        way.close()


class SimulatedDeath(BaseException):
    """What no handler of an error catches, as a killed worker."""


def dies_at_the_second(self: object, row: OrphanStretch, to: int) -> None:
    if to > row.first + 2:
        raise SimulatedDeath


def test_with_the_same_names_both_sides_end_as_the_union_minus_what_was_dropped(
    lab: Lab,
    ways: list[FailbackFlows],
    receiver: Receiver,  # noqa: F811
) -> None:
    ways.append(FailbackFlows(lab, **IDENTITY))
    there_and_back_again(ways[-1], receiver)


def test_with_the_default_names_nothing_of_the_other_side_comes_back(
    lab: Lab,
    ways: list[FailbackFlows],
    receiver: Receiver,  # noqa: F811
) -> None:
    way = FailbackFlows(lab)
    ways.append(way)
    topic, group = way.topic, f"{way.name}.readers"
    remote = f"{way.clusters['a'].alias}.{topic}"
    came_back = f"{way.clusters['b'].alias}.{topic}"
    fail_over(way, remote, topic)
    way.stand("b", group, {(remote, 0): 12, (topic, 1): 3})
    Divergence.objects.all().delete()
    assert len(divergence_points.read_points(flow=way.there)) == 2, "the topic has them"
    run = way.go_back()
    back = run.reverse
    assert {row["kind"] for row in run.starts} == {"names"}
    way.run(back)
    way.settled(back, "b", topic)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orphan_resolution, "_AT_ONCE", 2)
        patch.setattr(orphan_resolution._Resolution, "_note", dies_at_the_second)
        with pytest.raises(SimulatedDeath):
            decide(run, "replay", 0)
    assert way.marks("b", remote) == 4, "what was committed is there, and no more"
    assert orphan_resolution.resolve_orphans(run_id=run.pk) == 1
    decide(run, "export", 1)
    assert {row.state for row in OrphanStretch.objects.all()} == {"replayed", "exported"}
    rows = groups.fail_back_groups(run_id=run.pk, act=True)
    assert {row["state"] for row in rows} == {"moved"}, rows
    assert way.stands("a", group, topic)[0] == 12
    assert way.rest_from("a", came_back, 1, way.stands("a", group, came_back)[1])[0] == "b1-3"
    topics = {"a": [topic, came_back], "b": [remote, topic]}
    app, writers = Readers(way, f"{way.name}.app", topics, "error"), Writers(way)
    # In two of the four partitions it has never read.
    late = Readers(way, group, topics, "latest")
    switch(way, run, receiver, app, late, writers, 20 + 20 + 5 + 7 + 7)
    late.stop()
    assert not set(late.read["a"]) & {*numbered("a", 0, 12), *numbered("b", 1, 3)}
    start_flow(flow=way.there, who=WHO)
    way.run(way.there)
    way.write("a", topic, ["new-a"])
    way.settled(way.there, "a", topic)
    brought = way.read("a", came_back)
    assert [rows[:7] for rows in brought] == [numbered("b", 0, 7), numbered("b", 1, 7)]
    copied = way.read("b", remote)
    first = [*numbered("a", 0, 20), *numbered("orphan", 0, 5)]
    assert copied[0][:25] == first
    assert copied[1][:20] == numbered("a", 1, 20)
    assert "new-a" in copied[0]
    for number, rows in enumerate(writers.written):
        assert brought[number][7:] + copied[number][25 if number == 0 else 20 :] == [
            *rows, *(["new-a"] if number == 0 else [])
        ]  # fmt: skip
    assert way.marks("b", remote) == 5


def test_a_partition_that_the_flow_never_saw_has_orphans_that_can_be_replayed(
    lab: Lab, ways: list[FailbackFlows]
) -> None:
    way = FailbackFlows(lab)
    ways.append(way)
    remote = f"{way.clusters['a'].alias}.{way.topic}"
    way.write("a", way.topic, numbered("a", 0, 20))
    way.run(way.there)
    way.settled(way.there, "a", way.topic)
    way.stop(way.there)
    grown = NewPartitions(way.topic, 4)
    lab.on_source.create_partitions([grown])[way.topic].result(20)
    for number in (2, 3):
        way.write("a", way.topic, numbered("late", number, 6), number)
    way.promote("failover-1")
    run = way.go_back()
    listed = {row.partition: row.records for row in run.orphans.all()}
    assert listed == {0: 0, 1: 0, 2: 6, 3: 6}
    decide(run, "replay", 2)
    decide(run, "drop", 3)
    assert way.read("b", remote) == [numbered("a", 0, 20), [], numbered("late", 2, 6)]
    # The flow resumes after them.
    way.run(way.there)
    way.settled(way.there, "a", way.topic)
    way.stop(way.there)
    assert way.read("b", remote) == [numbered("a", 0, 20), [], numbered("late", 2, 6), []]


def test_a_topic_that_was_recreated_on_the_old_primary_is_left_out_and_keeps_no_other_back(
    lab: Lab, ways: list[FailbackFlows]
) -> None:
    way = FailbackFlows(lab, **IDENTITY)
    ways.append(way)
    topic, group = way.topic, f"{way.name}.readers"
    other = lab.create(f"{way.name}.other", 2)
    for number in range(2):
        way.write("a", other, numbered("old", number, 4), number)
    fail_over(way, topic, topic)
    way.write("b", other, numbered("b", 0, 3))
    lab.on_source.delete_topics([other])[other].result(20)
    wait_until_deleted(lab, other)
    way.make("a", other)
    way.write("a", other, ["another"])
    way.stand("b", group, {(topic, 0): 12, (other, 0): 2})
    run = way.go_back()
    kinds = {(row["topic"], row["partition"]): row["kind"] for row in run.starts}
    assert kinds == {
        (topic, 0): "divergence", (topic, 1): "divergence",
        (other, 0): "blocked", (other, 1): "blocked",
    }  # fmt: skip
    assert "1 topic (2 partitions)" in run.reason
    assert "is not the topic that was replicated" in run.reason
    back = run.reverse
    assert re.escape(other) in back.properties["topics.exclude"]
    assert {row.topic for row in run.orphans.all()} == {topic}
    way.run(back)
    way.settled(back, "b", topic)
    assert [rows[25:] for rows in way.read("a", topic)] == [
        numbered("b", number, 7) for number in range(2)
    ]
    assert way.read("a", other) == [["another"], []]
    rows = groups.fail_back_groups(run_id=run.pk, act=True)
    states = {row["topic"]: (row["state"], row["reason"]) for row in rows}
    assert states[topic][0] == "moved"
    assert states[other][0] == "not_copied"
    assert "not the topic that was replicated" in states[other][1]


def wait_until_deleted(lab: Lab, topic: str) -> None:
    until = time.monotonic() + 20
    while topic in lab.on_source.list_topics(timeout=10).topics:
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.soak
def test_again_and_again_there_and_back_nothing_is_lost_repeated_or_goes_round(
    lab: Lab, ways: list[FailbackFlows]
) -> None:
    way, chance = FailbackFlows(lab, **IDENTITY), random.Random(7)
    ways.append(way)
    topic, dropped = way.topic, {0: [], 1: []}  # type: ignore[var-annotated]
    back: Flow | None = None
    for turn in range(4):
        start_flow(flow=way.there, who=WHO)
        way.run(way.there)
        for number in range(2):
            way.write("a", topic, numbered(f"a{turn}.", number, chance.randrange(1, 40)), number)
            if back is not None:
                way.write("b", topic, numbered(f"own{turn}.", number, 5), number)
        way.settled(way.there, "a", topic)
        way.stop(way.there)
        stop_flow(flow=way.there, who=WHO)
        lost = {n: numbered(f"orphan{turn}.", n, chance.randrange(0, 9)) for n in range(2)}
        for number, rows in lost.items():
            way.write("a", topic, rows, number)
        way.promote(f"failover-{turn}")
        for number in range(2):
            way.write("b", topic, numbered(f"b{turn}.", number, chance.randrange(1, 20)), number)
        run = way.go_back()
        assert {row.partition: row.records for row in run.orphans.all()} == {
            number: len(rows) for number, rows in lost.items()
        }
        if back is None:
            back = run.reverse
            way.run(back)
        for number, rows in lost.items():
            decision = chance.choice(["replay", "drop"])
            dropped[number] += rows if decision == "drop" else []
            if rows:
                decide(run, decision, number)
        way.settled(back, "b", topic)
        lifecycle.close_failback(run=run, who=WHO, why="Switched back.")
    here, there = (way.read(side, topic) for side in "ab")
    for number in range(2):
        assert len(set(here[number])) == len(here[number])
        assert sorted(here[number]) == sorted(there[number] + dropped[number])

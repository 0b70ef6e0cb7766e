"""A to B, B takes over, back to A, and A to B again: the union minus what was given up, no loop."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from django.utils import timezone

from mirrors.models import Divergence, Failback, Flow, OrphanStretch
from mirrors.services import divergence
from mirrors.services.failback import (
    failback_groups,
    failback_switch,
    failbacks,
    orphan_settling,
    orphans,
)
from mirrors.services.flows.steering import start_flow, stop_flow
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.spark.lab import Lab, end_offsets
from tests.spark.switching import Readers, Writers, switch_back
from tests.spark.way_back import WHO, WayBack

pytestmark = pytest.mark.django_db(transaction=True)
IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}


def numbered(stem: str, partition: int, count: int) -> list[str]:
    return [f"{stem}{partition}-{number}" for number in range(count)]


@pytest.fixture
def ways(lab: Lab) -> Iterator[list[WayBack]]:
    found: list[WayBack] = []
    yield found
    for way in found:
        way.close()


def fail_over(way: WayBack, remote: str, local: str) -> None:
    """Records on both sides, five that never cross, and some of the standby's own."""
    for number in range(2):
        way.write("a", way.topic, numbered("a", number, 20), number)
    way.run(way.there)
    way.settled(way.there, "a", way.topic)
    way.stop(way.there)
    for number in range(2):
        way.write("a", way.topic, numbered("orphan", number, 5), number)
    first = way.promote("failover-1")
    if local != remote:
        way.make("b", local)
    for number in range(2):
        way.write("b", local, numbered("b", number, 7), number)
    again = way.promote("failover-1")
    assert [point.end for point in again] == [point.end for point in first]


def decide(run: Failback, decision: str, partition: int) -> None:
    topic = run.orphans.first().topic
    places = [(topic, partition)]
    now = timezone.now()
    orphans.decide(run=run, decision=decision, places=places, who=WHO, why="They count.", now=now)
    assert orphan_settling.settle_orphans(run_id=run.pk) == 1


def switch(
    way: WayBack,
    run: Failback,
    told: Receiver,
    app: Readers,
    late: Readers,
    writers: Writers,
    before: int,
) -> None:
    """`before`: records that the application has read when the act begins."""
    app.start("b", otherwise="earliest")
    app.until(before)
    switched = switch_back(way, run, told, [app, late], writers)
    assert switched.state == "succeeded", (switched.reason, list(switched.steps.values()))
    writers.side = ""
    every = [value for rows in writers.written for value in rows]
    app.until(len(every) + before - len(app.read["b"]))
    app.stop()
    read = [*app.read["b"], *app.read["a"]]
    assert len(set(read)) == len(read), "nothing was read twice"
    assert set(every) <= set(read)
    assert len(read) == before + len(every)
    totals = switched.result["totals"]
    assert (totals["loss"], totals["not_moved"], totals["written_on_source"]) == (0, 0, 0)
    failback_switch.close_switched()
    run.refresh_from_db()
    assert run.state == "succeeded", run.reason


class Died(BaseException):
    """What no handler of an error catches, as a killed worker."""


def dies_at_the_second(self: object, row: OrphanStretch, to: int) -> None:
    if to > row.first + 2:
        raise Died


def test_with_the_same_names_both_sides_end_as_the_union_minus_what_was_dropped(
    lab: Lab,
    ways: list[WayBack],
    receiver: Receiver,  # noqa: F811
) -> None:
    way = WayBack(lab, **IDENTITY)
    ways.append(way)
    topic, group = way.topic, f"{way.name}.readers"
    fail_over(way, topic, topic)
    way.stand("b", group, {(topic, 0): 12, (topic, 1): end_offsets(way.at["b"], topic)[topic, 1]})
    run = way.go_back()
    back = run.reverse
    way.run(back)
    way.settled(back, "b", topic)
    found = [(row.first, row.end, row.records, row.gone) for row in run.orphans.all()]
    assert found == [(20, 25, 5, 0), (20, 25, 5, 0)]
    listed = [row["value"] for row in orphans.read_records(stretch=run.orphans.first())]
    assert listed == numbered("orphan", 0, 5)
    for number, rows in enumerate(way.read("a", topic)):
        assert rows == [
            *numbered("a", number, 20), *numbered("orphan", number, 5), *numbered("b", number, 7)
        ]  # fmt: skip
    decide(run, "replay", 0)
    decide(run, "drop", 1)
    assert way.marks("b", topic) == 5
    way.settled(back, "b", topic)
    rows = failback_groups.bring_groups_back(run_id=run.pk, act=True)
    assert [row["state"] for row in rows] == ["moved", "moved"], rows
    lagging, done = way.stands("a", group, topic)
    assert lagging == 12
    assert way.rest_from("a", topic, 1, done) == []
    # One act under traffic; a group that has not read what was brought over stops nothing.
    topics = {"a": [topic], "b": [topic]}
    app = Readers(way, f"{way.name}.app", topics, "error")
    late = Readers(way, group, topics, "error")
    writers = Writers(way)
    switch(way, run, receiver, app, late, writers, 20 + 20 + 7 + 7 + 5)
    rest = way.read("a", topic)
    rest = [*rest[0][12:], *rest[1][20 + 5 + 7 :]]
    late.until(len(rest))
    late.stop()
    assert sorted(late.read["a"]) == sorted(rest)
    # And there again: the flow is a standby's once more, and what it brought stays where it is.
    start_flow(flow=way.there, who=WHO)
    way.run(way.there)
    way.write("a", topic, ["new-a"])
    way.settled(way.there, "a", topic)
    here, there = (way.read(side, topic) for side in "ab")
    for number in range(2):
        dropped = numbered("orphan", 1, 5) if number else []
        assert sorted(here[number]) == sorted(there[number] + dropped)
        assert len(set(here[number])) == len(here[number])
    assert len(here[0]) == 20 + 5 + 7 + len(writers.written[0]) + 1


def test_with_the_default_names_nothing_of_the_other_side_comes_back(
    lab: Lab,
    ways: list[WayBack],
    receiver: Receiver,  # noqa: F811
) -> None:
    way = WayBack(lab)
    ways.append(way)
    topic, group = way.topic, f"{way.name}.readers"
    remote = f"{way.clusters['a'].alias}.{topic}"
    came_back = f"{way.clusters['b'].alias}.{topic}"
    fail_over(way, remote, topic)
    way.stand("b", group, {(remote, 0): 12, (topic, 1): 3})
    Divergence.objects.all().delete()
    assert len(divergence.recall(flow=way.there)) == 2, "the topic on the standby keeps them"
    run = way.go_back()
    back = run.reverse
    assert {row["kind"] for row in run.starts} == {"names"}
    way.run(back)
    way.settled(back, "b", topic)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orphan_settling, "_AT_ONCE", 2)
        patch.setattr(orphan_settling._Settler, "_note", dies_at_the_second)
        with pytest.raises(Died):
            decide(run, "replay", 0)
    assert way.marks("b", remote) == 4, "what was committed is there, and no more"
    assert orphan_settling.settle_orphans(run_id=run.pk) == 1
    decide(run, "export", 1)
    assert {row.state for row in OrphanStretch.objects.all()} == {"replayed", "exported"}
    rows = failback_groups.bring_groups_back(run_id=run.pk, act=True)
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


@pytest.mark.soak
def test_again_and_again_there_and_back_nothing_is_lost_repeated_or_goes_round(
    lab: Lab, ways: list[WayBack]
) -> None:
    way, chance = WayBack(lab, **IDENTITY), random.Random(7)
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
        failbacks.close_failback(run=run, who=WHO, why="Switched back.")
    here, there = (way.read(side, topic) for side in "ab")
    for number in range(2):
        assert len(set(here[number])) == len(here[number])
        assert sorted(here[number]) == sorted(there[number] + dropped[number])

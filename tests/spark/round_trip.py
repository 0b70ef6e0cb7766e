"""The whole round trip of a topic that both sides write: failover, failback, failover, failback."""

from __future__ import annotations

from django.utils import timezone

from mirrors.models import Failback
from mirrors.services.failback import groups, orphan_resolution, orphans, switchover
from mirrors.services.flows.commands import start_flow
from tests.monitoring.conftest import Receiver
from tests.spark.failback_stage import WHO, FailbackFlows
from tests.spark.reading import end_offsets
from tests.spark.switching import Readers, Writers, switch_back

IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}


def numbered(stem: str, partition: int, count: int) -> list[str]:
    return [f"{stem}{partition}-{number}" for number in range(count)]


def fail_over(way: FailbackFlows, remote: str, local: str) -> None:
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
    orphans.decide(
        run=run, decision=decision, partitions=places, who=WHO, why="They count.", now=now
    )
    done = orphan_resolution.resolve_orphans(run_id=run.pk)
    assert done == 1, [row.reason for row in run.orphans.all()]


def switch(
    way: FailbackFlows,
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
    switchover.close_switched()
    run.refresh_from_db()
    assert run.state == "succeeded", run.reason


def there_and_back_again(way: FailbackFlows, receiver: Receiver) -> None:
    """Writes on both sides; both end as the union minus what was dropped."""
    topic, there, group = way.topic, way.written["b"], f"{way.name}.readers"
    fail_over(way, there, there)
    way.stand("b", group, {(there, 0): 12, (there, 1): end_offsets(way.at["b"], there)[there, 1]})
    run = way.go_back()
    back = run.reverse
    way.run(back)
    way.settled(back, "b", there)
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
    assert way.marks("b", there) == 5
    way.settled(back, "b", there)
    rows = groups.fail_back_groups(run_id=run.pk, act=True)
    assert [row["state"] for row in rows] == ["moved", "moved"], rows
    lagging, done = way.stands("a", group, topic)
    assert lagging == 12
    assert way.rest_from("a", topic, 1, done) == []
    # One act under traffic; a group that has not read what was brought over stops nothing.
    topics = {"a": [topic], "b": [there]}
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
    here, copied = way.read("a", topic), way.read("b", there)
    for number in range(2):
        dropped = numbered("orphan", 1, 5) if number else []
        assert sorted(here[number]) == sorted(copied[number] + dropped)
        assert len(set(here[number])) == len(here[number])
    assert len(here[0]) == 20 + 5 + 7 + len(writers.written[0]) + 1

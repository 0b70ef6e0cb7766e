"""One application fails over and back while the rest of its flow goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.utils import timezone

from mirrors.domain.failover.scope import scope_of
from mirrors.models import Divergence, Failback
from mirrors.services.failback import orphan_resolution, orphans, preparation
from mirrors.services.failback.application import create_reverse_flow, failback_of
from mirrors.services.failback.application_orphans import request_listing
from mirrors.services.flows.settings import update_flow
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.spark.application_stage import moved, named, observed, reconcile
from tests.spark.failback_stage import WHO, FailbackFlows
from tests.spark.lab import Lab
from tests.spark.round_trip import IDENTITY, numbered
from tests.spark.switching import Readers, Writers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ways(lab: Lab) -> Iterator[list[FailbackFlows]]:
    found: list[FailbackFlows] = []
    yield found
    for way in found:
        way.close()


@pytest.mark.parametrize("names", [IDENTITY, {}], ids=["same names", "default names"])
def test_an_application_switches_over_and_back_and_nothing_is_lost_or_repeated(
    lab: Lab,
    ways: list[FailbackFlows],
    receiver: Receiver,  # noqa: F811
    names: dict[str, str],
) -> None:
    way = FailbackFlows(lab, **names)
    ways.append(way)
    topic, other = way.topic, lab.create(f"{way.name}.other", 2)
    alias = {side: cluster.alias for side, cluster in way.clusters.items()}
    remote = topic if names else f"{alias['a']}.{topic}"
    other_remote = other if names else f"{alias['a']}.{other}"
    back_name = topic if names else f"{alias['b']}.{topic}"
    if not names:
        way.make("b", topic)
    for number in range(2):
        way.write("a", topic, numbered("a", number, 20), number)
        way.write("a", other, numbered("o", number, 9), number)
    observed(way, way.there, receiver, [topic, other])
    reconcile(way, way.there)
    way.settled(way.there, "a", topic, other)
    topics = {"a": [topic], "b": sorted({remote, topic})}
    app = Readers(way, f"{way.name}.app", topics, "earliest")
    late = Readers(way, f"{way.name}.late", topics, "latest")
    writers = Writers(way)
    writers.side = "a"
    app.start("a")
    app.until(40)
    way.stand("a", late.group, {(topic, 0): 12, (topic, 1): 20})

    run = moved(
        way, way.there, receiver, kind="switchover", scope=named(topic), readers=[app],
        writers=writers,
    )  # fmt: skip
    assert run.result["totals"]["loss"] == 0
    assert way.stands("b", late.group, remote) == [12, 20]
    # It reads three more of the old records on the standby.
    way.stand("b", late.group, {(remote, 0): 15, (remote, 1): 20})
    for _ in range(3):
        writers.go_on()
    app.until(40 + sum(map(len, writers.written)) - len(app.read["a"]))

    # The rest goes on, in the same direction.
    way.write("a", other, ["later"])
    way.settled(way.there, "a", other)
    assert "later" in way.read("b", other_remote)[0]

    # Another application of the flow that moves leaves this one's divergence points.
    assert {row.topic for row in Divergence.objects.filter(flow=way.there)} == {topic}

    assert failback_of(run).step.code == "create"
    back = create_reverse_flow(run=run, who=WHO)
    way.there.refresh_from_db()
    reconcile(way, back)
    if names:
        assert way.there.properties["skip.replicated"] == "true"
    way.settled(back, "b", topic)
    copied = [len(rows) for rows in way.read("a", back_name)]
    own = [len(rows) for rows in way.read("b", topic)]
    assert copied == own, "the standby's own records, and no copy of a copy"

    # Back, under traffic.
    topics["a"] = sorted({topic, back_name})
    scope = scope_of(failback_of(run).scope)
    assert scope is not None
    observed(way, back, receiver, [topic])
    switched = moved(
        way, back, receiver, kind="switchover", scope=scope, readers=[app], writers=writers, to="a",
    )  # fmt: skip
    totals = switched.result["totals"]
    assert (totals["loss"], totals["not_moved"]) == (0, 0)
    for _ in range(3):
        writers.go_on()
    every = [value for rows in writers.written for value in rows]
    before = [value for number in range(2) for value in numbered("a", number, 20)]
    app.until(len(every) + 40 - len(app.read["b"]))
    app.stop()
    read = [*app.read["a"], *app.read["b"]]
    assert sorted(read) == sorted([*before, *every])

    # A group that stood among old records resumes there, and reads all that follows.
    assert way.stands("a", late.group, topic)[0] == 15
    rest = way.read("a", topic)
    rest = [*rest[0][15:], *rest[1][20:]]
    topics["a"] = [topic]
    late.start("a")
    late.until(len(rest))
    late.stop()
    assert sorted(late.read["a"]) == sorted(rest)

    # The flow replicates the topic again, from its position.
    there = way.there
    there.refresh_from_db()
    settings = {key: text for key, text in there.properties.items() if key != "topics.exclude"}
    update_flow(flow=there, properties=settings, who=WHO)
    there.refresh_from_db()
    way.stop(there)
    reconcile(way, there)
    way.write("a", topic, ["new-a"])
    way.settled(there, "a", topic)
    here, over = way.read("a", topic), way.read("b", remote)
    for number in range(2):
        assert len(set(over[number])) == len(over[number])
        if names:
            assert sorted(here[number]) == sorted(over[number])


@pytest.mark.parametrize("names", [IDENTITY, {}], ids=["same names", "default names"])
def test_records_that_an_emergency_failover_left_are_listed_and_replayed_or_dropped(
    lab: Lab,
    ways: list[FailbackFlows],
    receiver: Receiver,  # noqa: F811
    names: dict[str, str],
) -> None:
    way = FailbackFlows(lab, **names)
    ways.append(way)
    topic, other = way.topic, lab.create(f"{way.name}.other", 2)
    prefix = "" if names else f"{way.clusters['a'].alias}."
    remote = f"{prefix}{topic}"
    for number in range(2):
        way.write("a", topic, numbered("a", number, 20), number)
        way.write("a", other, numbered("o", number, 9), number)
    observed(way, way.there, receiver, [topic, other])
    reconcile(way, way.there)
    way.settled(way.there, "a", topic, other)
    # The flow's job is dead, and producers still write.
    way.stop(way.there)
    for number in range(2):
        way.write("a", topic, numbered("orphan", number, 5), number)
    way.write("a", other, ["owed"])
    run = moved(way, way.there, receiver, kind="failover", scope=named(topic))
    assert failback_of(run).step.code == "list", run.result["totals"]
    way.settled(way.there, "a", other)
    assert "owed" in way.read("b", f"{prefix}{other}")[0]
    if not names:
        way.make("b", topic)
    for number in range(2):
        way.write("b", topic, numbered("b", number, 7), number)

    listing = request_listing(run=run, who=WHO, why="They count.")
    assert preparation.prepare_failback(run_id=listing.pk) is None
    listing.refresh_from_db()
    assert listing.state == "running", listing.reason
    found = {row.partition: (row.first, row.records) for row in listing.orphans.all()}
    assert found == {0: (20, 5), 1: (20, 5)}
    assert failback_of(run).step.code == "decide"

    decided(way, listing, "replay", topic, 0)
    listing.refresh_from_db()
    assert listing.state == "running"
    decided(way, listing, "drop", topic, 1)
    listing.refresh_from_db()
    assert listing.state == "succeeded", listing.reason
    assert failback_of(run).step.code == "create"
    assert way.marks("b", remote) == 5
    copied = way.read("b", remote)
    assert [rows[:20] for rows in copied] == [numbered("a", number, 20) for number in range(2)]
    assert [row for row in copied[0] if "orphan" in row] == numbered("orphan", 0, 5)
    assert not [row for row in copied[1] if "orphan" in row]

    # The rest goes on meanwhile and afterwards.
    way.write("a", other, ["later"])
    way.settled(way.there, "a", other)
    assert "later" in way.read("b", f"{prefix}{other}")[0]

    # What came from the old primary does not come back.
    back = create_reverse_flow(run=run, who=WHO)
    reconcile(way, back)
    way.settled(back, "b", topic)
    if names:
        assert [rows[25:] for rows in way.read("a", topic)] == [
            numbered("b", number, 7) for number in range(2)
        ]
    else:
        came = way.read("a", f"{way.clusters['b'].alias}.{topic}")
        assert came == [numbered("b", number, 7) for number in range(2)]

    # The topics are included again: the flow resumes after the orphans.
    there = way.there
    there.refresh_from_db()
    settings = {key: text for key, text in there.properties.items() if key != "topics.exclude"}
    update_flow(flow=there, properties=settings, who=WHO)
    way.stop(there)
    reconcile(way, there)
    way.write("a", topic, ["new-a"])
    way.settled(there, "a", topic)
    again = way.read("b", remote)
    assert len(set(again[0])) == len(again[0])
    assert "new-a" in again[0]
    assert not [row for row in again[1] if "orphan" in row]


def decided(way: FailbackFlows, listing: Failback, decision: str, topic: str, number: int) -> None:
    """A person decides; the worker stops the flow, acts, and starts it again."""
    orphans.decide(
        run=listing, decision=decision, partitions=[(topic, number)], who=WHO, why="They count.",
        now=timezone.now(),
    )  # fmt: skip
    done: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        # The flow's job ends between two looks.
        patch.setattr("time.sleep", lambda _: reconcile(way, way.there))
        done.append(orphan_resolution.resolve_orphans(run_id=listing.pk))
    assert done == [1], [row.reason for row in listing.orphans.all()]
    way.there.refresh_from_db()
    assert way.there.desired_state == "running"
    reconcile(way, way.there)

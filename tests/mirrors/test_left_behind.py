"""Topics that are not replicated count in every plan; only a decision leaves them behind."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from mirrors.domain.errors import InvalidSettings
from mirrors.models import FailoverRun, Flow, FlowPartition
from mirrors.services.failover import left_behind
from mirrors.services.failover.script import script_of
from tests.groups.world import World
from tests.mirrors.simulated_flow import simulate
from tests.mirrors.switchover import NO_HOOKS, begin, carry_out, group_of
from tests.pages import world as rows
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(sides: tuple[Side, Side]) -> World:
    here = World.make(*sides, groups=unique("app") + ".*")
    here.flow.properties |= NO_HOOKS
    here.flow.save()
    return here


@pytest.fixture
def good(world: World) -> str:
    """A topic that is copied whole, with a group in its middle."""
    topic = world.topic("orders")
    world.fill(topic, 30)
    world.copy.copy()
    world.commit(group_of(world), topic, 10)
    return topic


def uncopied(world: World, records: int, partitions: int = 1) -> str:
    """The filters select it, and nothing of it was copied."""
    topic = unique("refused")
    world.copy.source.make(topic, partitions)
    world.select(topic)
    world.fill(topic, records)
    return topic


def codes(run: FailoverRun) -> set[tuple[str, str]]:
    return {(row["code"], row["where"]) for row in run.plan["blockers"]}


def leave(flow: Flow, topic: str, partition: int | None = None) -> None:
    how: dict[str, Any] = {"reason": "moved by hand", "who": "ann", "now": timezone.now()}
    left_behind.decide(flow=flow, topic=topic, partition=partition, **how)


def test_a_topic_without_a_row_is_counted_and_blocks_until_it_is_left_behind(
    world: World, good: str
) -> None:
    topic = uncopied(world, 50)
    run = simulate(world.flow)
    assert codes(run) == {("not_copied", topic)}
    totals = run.result["totals"]
    assert (totals["loss"], totals["loss_certainty"]) == (50, "counted")
    assert "50 records would be lost" in run.reason
    assert run.verification == "partly_verified"
    with pytest.raises(InvalidSettings, match="There are blockers"):
        begin(world, simulation=run.pk)

    leave(world.flow, topic)
    run = simulate(world.flow)

    assert codes(run) == set()
    # It is left out of what is done, never of what is said.
    assert (run.result["totals"]["loss"], run.plan["pending"]) == (50, 0)
    assert f"{topic} (1 partition) is left behind on" in run.reason
    assert "by decision of ann (moved by hand): at most 50 records not replicated" in run.reason
    (left,) = run.result["left_behind"]
    assert (left["topic"], left["records"], left["decided_by"]) == (topic, 50, "ann")
    assert run.verification == "verified", run.verification_reason
    assert {row["topic"] for row in run.plan["partitions"]} == {good}
    assert f"{topic} (1 partition) is left behind" in script_of(run=run)[1]
    done = carry_out(world, run, "switchover", {(group_of(world), good): 30})
    assert done.state == "succeeded", done.reason
    assert f"{topic} (1 partition) is left behind on" in done.reason
    assert (done.result["totals"]["loss"], done.verification) == (50, "verified")
    assert [row["topic"] for row in done.result["left_behind"]] == [topic]


def test_what_the_planner_refuses_is_named_with_its_cause(world: World, good: str) -> None:
    topic, cause = uncopied(world, 20, 2), "a_b.c and a.b.c meet on one remote topic"
    rows.topic(world.flow, topic, state="faulted", code="cannot_be_created", reason=cause)
    for number in range(2):
        rows.partition(
            world.flow,
            topic,
            number,
            state="faulted",
            position=None,
            code="cannot_be_created",
            reason=cause,
            source_first=0,
        )
    FlowPartition.objects.filter(topic=topic).update(remote_topic="")
    run = simulate(world.flow)
    assert codes(run) == {("cannot_be_created", topic)}
    (told,) = run.plan["blockers"]
    assert f"{topic} (2 partitions) cannot be created on the target. {cause}." in told["sentence"]
    assert "at most 20 records" in told["sentence"]
    assert run.result["totals"]["loss_known"] == 20
    assert all(row["topic"] == good for row in run.plan["partitions"])


def test_a_recreated_topic_owes_all_its_records_and_may_be_left_behind(
    world: World, good: str
) -> None:
    topic = world.topic("again")
    world.fill(topic, 20)
    world.copy.copy()
    world.commit(group_of(world), topic, 5)
    world.delete(world.copy.source, topic)
    world.copy.source.make(topic, 1)
    world.fill(topic, 20)
    run = simulate(world.flow)
    assert ("recreated", f"{topic}-0") in codes(run)
    totals = run.result["totals"]
    assert (totals["loss_known"], totals["loss_certainty"]) == (20, "counted")

    leave(world.flow, topic, 0)
    run = simulate(world.flow)

    assert codes(run) == set()
    assert run.verification == "verified", run.verification_reason
    assert f"{topic}-0 is left behind" in run.reason
    assert {row["topic"] for row in run.result["partitions"]} == {good}
    done = carry_out(world, run, "switchover", {(group_of(world), good): 30})
    assert done.state == "succeeded", done.reason
    assert f"{topic}-0 is left behind" in done.reason
    assert "No records were lost" not in done.reason

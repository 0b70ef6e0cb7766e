"""Runs on real clusters whose workers die, whose source dies, that people pause and call off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from controlplane.demo.guard import Guard
from controlplane.demo.kafka import KafkaBroker
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.runbook.steps import STEPS
from mirrors.kafka.groups import GroupOffset, read_offsets
from mirrors.models import Cluster, FailoverRun, FailoverStep, Gap
from mirrors.models import GroupOffset as GroupRow
from mirrors.services import failovers, simulation
from mirrors.services.errors import Conflict
from mirrors.services.runbook import asking, rows
from mirrors.services.runbook.turn import advance
from tests.groups.world import World
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.pages import world as made
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db
NAMES = [step.name for step in STEPS]
OPEN = ("queued", "running")
HOOKED = {
    f"failover.{name}": "webhook" for name in ("fence", "start.consumers", "redirect.producers")
}


class Killed(BaseException):
    """What nobody catches: the worker is gone in mid-step."""


@pytest.fixture
def world(primary: str, backup: str, receiver: Receiver) -> Iterator[World]:  # noqa: F811
    sides = Side("one", primary), Side(unique("two"), backup)
    here = World.make(*sides, groups=unique("app") + ".*")
    here.flow.properties |= {**HOOKED, "failover.webhook.url": receiver.url}
    here.flow.save()
    yield here
    for side in sides:
        side.close()


def group_of(world: World) -> str:
    return str(world.flow.properties["groups"]).removesuffix(".*")


def copied(world: World) -> str:
    """A topic with aborted and committed transactions, all of it copied; a group in its middle."""
    topic = world.topic("orders")
    world.fill_badly(topic, seed=7, batches=40)
    world.copy.copy()
    middle = sorted(world.truth(topic))[15]
    world.commit(group_of(world), topic, middle)
    return topic


def simulated(world: World) -> FailoverRun:
    run = simulation.request_simulation(flow=world.flow, who="tester")
    assert simulation.run_simulation(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "succeeded", run.reason
    return run


def begin(world: World, kind: str = "switchover", **changes: Any) -> FailoverRun:
    world.flow.refresh_from_db()
    asked = {"why": "tonight", "who": "ann", "confirm_alias": world.flow.target.alias, **changes}
    if "simulation" not in asked:
        asked["simulation"] = simulated(world).pk
    return asking.request_execution(flow=world.flow, kind=kind, **asked)  # type: ignore[arg-type]


def consume_there(world: World, topic: str, run: FailoverRun) -> None:
    """The group, started on the target, has read all: what the last step waits for."""
    if run.steps.get(name="redirect_producers").state == "succeeded":
        end = world.copy.target.ends(world.remote(topic))[0]
        world.commit_there(group_of(world), topic, end)


def finish(world: World, topic: str, run: FailoverRun, **how: Any) -> FailoverRun:
    until = time.monotonic() + 60
    while run.state in OPEN:
        assert time.monotonic() < until, list(run.steps.values_list("name", "state", "reason"))
        consume_there(world, topic, run)
        turn = advance(run_id=run.pk, **how)
        if turn.again_s:
            time.sleep(min(turn.again_s, 1.0))
        run.refresh_from_db()
    return run


def state_after(world: World, topic: str, run: FailoverRun) -> dict[str, Any]:
    """All that a run leaves, without its times."""
    world.flow.refresh_from_db()
    totals = {
        name: figure for name, figure in run.result["totals"].items() if not name.endswith("_ms")
    }
    return {
        "state": run.state,
        "steps": [(step.name, step.state) for step in run.steps.all()],
        "totals": totals,
        "places": [
            (row["partition"], row["downstream_offset"], row["state"] in ("moved", "in_sync"))
            for row in run.result["partitions"]
        ],
        "flow": (world.flow.desired_state, world.flow.observed_state),
        "group": world.stands(group_of(world), topic),
    }


def test_the_worker_killed_after_each_step_and_in_each_act_the_run_ends_in_the_same_state(
    world: World,
    receiver: Receiver,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = copied(world)
    clean = finish(world, topic, begin(world))
    assert clean.state == "succeeded", clean.reason
    wanted = state_after(world, topic, clean)
    keys = {headers["X-Understudy-Delivery"].partition("-")[2] for headers, _ in receiver.got}
    assert keys == {"fence_producers", "start_consumers", "redirect_producers"}

    again_from_the_start(world, topic)
    receiver.got.clear()
    deaths = {*((name, "step") for name in NAMES), *((name, "act") for name in NAMES)}
    run = begin(world)
    note = rows.note_acted

    def dies(name: str, where: str) -> None:
        if (name, where) in deaths:
            deaths.remove((name, where))
            raise Killed

    def dies_in_the_act(*, row: FailoverStep) -> None:
        dies(row.name, "act")
        note(row=row)

    monkeypatch.setattr(rows, "note_acted", dies_in_the_act)
    until = time.monotonic() + 90
    while run.state in OPEN:
        assert time.monotonic() < until, list(run.steps.values_list("name", "state", "reason"))
        consume_there(world, topic, run)
        try:
            # Whoever is killed says no good-bye: the row stays his until he is missed.
            with monkeypatch.context() as dead:
                dead.setattr(rows, "let_go", lambda **_: None)
                advance(run_id=run.pk, at_step=lambda name: dies(name, "step"))
        except Killed:
            assert run.pk not in rows.due_runs(now=timezone.now())
        missed = timezone.now() - 2 * failovers.LOST_AFTER
        FailoverRun.objects.filter(pk=run.pk).update(seen_at=missed)
        run.refresh_from_db()
        if run.state in OPEN:
            assert run.pk in rows.due_runs(now=timezone.now())
    assert not {name for name, where in deaths if where == "step"}
    assert state_after(world, topic, run) == wanted
    # A call that may have been heard is made again under the same key, so it can be told apart.
    mine = {headers["X-Understudy-Delivery"] for headers, _ in receiver.got}
    assert {key.partition("-")[2] for key in mine} == keys
    assert len(mine) == len(keys)


def again_from_the_start(world: World, topic: str) -> None:
    """As if nobody had ever handed over."""
    world.flow.desired_state = world.flow.observed_state = "running"
    world.flow.save()
    world.commit_there(group_of(world), topic, 1)
    GroupRow.objects.filter(flow=world.flow).delete()
    Cluster.objects.update(reachable=True)


@pytest.fixture
def mortal(tmp_path: Path, guard: Guard) -> Iterator[KafkaBroker]:
    """A source of this test's own, to be killed."""
    broker = KafkaBroker(
        tmp_path, jvm=("-XX:TieredStopAtLevel=1",), environment=guard.environment
    ).start()
    yield broker
    broker.kill()


def test_a_failover_with_the_source_killed_goes_on_at_exactly_the_right_record_and_told_the_loss(
    mortal: KafkaBroker,
    backup: str,
    receiver: Receiver,  # noqa: F811
) -> None:
    sides = Side("one", mortal.bootstrap), Side(unique("two"), backup)
    world = World.make(*sides, groups=unique("app") + ".*")
    hooks = {"failover.start.consumers": "webhook", "failover.redirect.producers": "webhook"}
    world.flow.properties |= {**hooks, "failover.webhook.url": receiver.url}
    world.flow.save()
    topic, group = copied(world), group_of(world)
    truth = world.truth(topic)
    offset = sorted(truth)[15]
    position = world.copy.ends()[topic, 0]
    world.fill(topic, 30)  # comes after the last copy
    end = sides[0].ends(topic, committed=True)[0]
    figures = {"position": position, "source_end": end, "source_stable_end": end}
    made.partition(world.flow, topic, 0, **figures)
    seen = {"source_offset": offset, "sync_state": "waiting", "as_of": timezone.now()}
    GroupRow.objects.create(flow=world.flow, group=group, topic=topic, partition=0, **seen)
    for side in sides[:1]:
        side.close()
    mortal.kill()

    simulation = simulated(world)
    with pytest.raises(InvalidSettings, match="needs the source"):
        begin(world, "switchover", simulation=simulation.pk)
    run = finish(world, topic, begin(world, "failover", simulation=simulation.pk))

    assert run.state == "succeeded", run.reason
    steps = {step.name: step for step in run.steps.all()}
    assert steps["fence_producers"].state == "skipped"
    assert "does not answer" in steps["fence_producers"].reason
    (row,) = run.result["partitions"]
    assert (row["downstream_offset"], row["state"], row["re_reads"]) == (truth[offset], "moved", 0)
    assert run.result["totals"]["loss"] == end - position
    assert run.result["totals"]["written_on_source"] is None
    world.flow.refresh_from_db()
    assert (world.flow.desired_state, world.flow.observed_state) == ("stopped", "failed_over")
    sides[1].close()


def test_a_group_with_members_on_the_target_is_not_moved_and_a_person_decides(
    world: World,
) -> None:
    topic, group = copied(world), group_of(world)
    with world.member(group, topic):
        asked = begin(world, "failover")
        steps = asked.steps
        until = time.monotonic() + 60
        while steps.get(name="reset_groups").result.get("not_moved") is None:
            assert time.monotonic() < until, list(steps.values_list("name", "state", "reason"))
            advance(run_id=asked.pk)
            time.sleep(0.1)
        FailoverStep.objects.filter(run=asked, name="reset_groups").update(due_at=timezone.now())
        while asked.state in OPEN:
            assert time.monotonic() < until
            advance(run_id=asked.pk)
            time.sleep(0.1)
            asked.refresh_from_db()
        assert (asked.state, asked.waits_for) == ("waiting", "trouble")
        assert "members" in asked.reason
        assert world.stands(group, topic) is None
    asking.confirm(run=asked, who="ann", why="it reads there already")
    row = steps.get(name="reset_groups")
    assert (row.state, row.confirmed_by) == ("succeeded", "ann")
    asked.refresh_from_db()
    failovers.abort_run(run=asked, who="ann")
    advance(run_id=asked.pk)
    asked.refresh_from_db()
    assert asked.state == "aborted", asked.reason


def test_a_plan_that_became_worse_stops_before_anything_is_changed(
    world: World,
    receiver: Receiver,  # noqa: F811
) -> None:
    topic = copied(world)
    run = begin(world, "failover")
    gap = made.gap(world.flow)
    Gap.objects.filter(pk=gap.pk).update(topic=topic, partition=0)
    run = finish(world, topic, run)
    assert run.state == "failed"
    assert "worse than what was simulated" in run.reason
    assert "open gap" in run.reason
    assert receiver.got == []
    world.flow.refresh_from_db()
    assert world.flow.desired_state == "running"


def test_what_is_asked_of_a_run_is_refused_in_words_where_it_does_not_fit(
    world: World, settings: Settings
) -> None:
    copied(world)
    simulation = simulated(world)
    with pytest.raises(InvalidSettings) as refused:
        begin(world, simulation=None, confirm_alias="x", why=" ")
    assert set(refused.value.fields) == {"simulation", "confirm_alias", "reason"}
    FailoverRun.objects.filter(pk=simulation.pk).update(
        ended_at=timezone.now() - timedelta(minutes=16)
    )
    with pytest.raises(InvalidSettings, match="older than 15 min"):
        begin(world, simulation=simulation.pk)
    FailoverRun.objects.filter(pk=simulation.pk).update(ended_at=timezone.now())
    settings.UNDERSTUDY_FAILOVER_SECOND_PERSON = True
    run = begin(world, simulation=simulation.pk)
    assert (run.state, run.waits_for) == ("waiting", "approval")
    advance(run_id=run.pk)
    acts: list[tuple[Callable[..., Any], str]] = [
        (asking.approve, "somebody else"),
        (asking.resume, "does not wait"),
        (asking.confirm, "No step"),
        (asking.pause, "nothing to pause"),
    ]
    for act, words in acts:
        with pytest.raises(UnderstudyError, match=words):
            act(run=run, who="ann")
    with pytest.raises(Conflict, match="runs already"):
        begin(world, simulation=simulation.pk)
    asking.approve(run=run, who="ben")
    assert (run.state, run.approved_by) == ("running", "ben")
    asking.pause(run=run, who="ann")
    advance(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, run.waits_for) == ("waiting", "pause")
    assert {step.state for step in run.steps.all()} == {"pending"}
    asking.resume(run=run, who="ann")
    asking.pause(run=run, who="ann")
    failovers.abort_run(run=run, who="ben", why="not tonight")
    advance(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, "Nothing had been changed" in run.reason) == ("aborted", True)


def test_a_person_confirms_what_only_a_person_can_do(world: World) -> None:
    topic = copied(world)
    world.set(failover_start_consumers="person", failover_redirect_producers="none")
    run = finish(world, topic, begin(world))
    assert (run.state, run.waits_for) == ("waiting", "person")
    assert "Start the consumers" in run.reason
    group = group_of(world)
    place = (world.remote(topic), 0)
    stands = read_offsets(world.copy.target.spec, {group: [place]}).done[group].done[place]
    assert stands == GroupOffset(world.truth(topic)[sorted(world.truth(topic))[15]])
    world.commit_there(group, topic, stands.offset + 1)
    asking.confirm(run=run, who="ben")
    run = finish(world, topic, run)
    assert run.state == "succeeded", run.reason
    steps = {step.name: step for step in run.steps.all()}
    assert steps["start_consumers"].confirmed_by == "ben"
    assert steps["redirect_producers"].state == "skipped"

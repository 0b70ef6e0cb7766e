"""Runs on real clusters that people control: refuse, approve, pause, confirm, accept, abort."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.kafka.admin.groups import GroupOffset, list_groups, read_offsets, write_offsets
from mirrors.models import FailoverRun, FailoverStep, Gap, Role
from mirrors.services.errors import Conflict
from mirrors.services.failover import lifecycle
from mirrors.services.failover.runbook import commands
from mirrors.services.failover.runbook.steps import hooks
from mirrors.services.failover.runbook.worker import advance
from mirrors.services.users import ensure_person
from tests.groups.world import World
from tests.mirrors.switchover import (
    OPEN,
    begin,
    copied,
    finish,
    group_of,
    hooked_world,
    simulated,
)
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.pages import world as made
from tests.wire.world import unique

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(primary: str, backup: str, receiver: Receiver) -> Iterator[World]:  # noqa: F811
    yield from hooked_world(primary, backup, receiver.url)


def test_a_group_that_gets_members_on_the_target_behind_the_fence_waits_for_a_person(
    world: World,
) -> None:
    topic, group = copied(world), group_of(world)
    asked = begin(world, "failover")
    steps = asked.steps
    with contextlib.ExitStack() as members:

        def joins(step: str) -> None:
            if step == "verify_target":
                members.enter_context(world.member(group, topic))

        until = time.monotonic() + 60
        while steps.get(name="reset_groups").result.get("not_moved") is None:
            assert time.monotonic() < until, list(steps.values_list("name", "state", "reason"))
            advance(run_id=asked.pk, at_step=joins)
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
    commands.confirm(run=asked, who="ann", why="it reads there already")
    row = steps.get(name="reset_groups")
    assert (row.state, row.confirmed_by) == ("succeeded", "ann")
    asked.refresh_from_db()
    lifecycle.abort_run(run=asked, who="ann")
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
    assert "worse than the simulated one" in run.reason
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
        (commands.approve, "another person"),
        (commands.resume, "is not waiting"),
        (commands.confirm, "No step"),
        (commands.pause, "nothing to pause"),
    ]
    for act, words in acts:
        with pytest.raises(UnderstudyError, match=words):
            act(run=run, who="ann")
    with pytest.raises(Conflict, match="is already running"):
        begin(world, simulation=simulation.pk)
    ensure_person(username="ben", password=None, role=Role.ADMIN)
    commands.approve(run=run, who="ben")
    assert (run.state, run.approved_by) == ("running", "ben")
    commands.pause(run=run, who="ann")
    advance(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, run.waits_for) == ("waiting", "pause")
    assert {step.state for step in run.steps.all()} == {"pending"}
    commands.resume(run=run, who="ann")
    commands.pause(run=run, who="ann")
    lifecycle.abort_run(run=run, who="ben", why="not tonight")
    advance(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, "Nothing was changed" in run.reason) == ("aborted", True)


# How the command of an application's own works: the first try of each step fails in its own way.
MOVE = """#!/bin/sh
echo "$1 $2" >> called
case $1 in
start_consumers)
    [ -e tried ] || { touch tried; echo no place to start; exit 3; }
    sleep 300 & echo $! > consumer ;;
redirect_producers)
    [ -e late ] || { touch late; sleep 300; } ;;
esac
"""


@pytest.fixture
def move(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "move"
    path.write_text(MOVE)
    path.chmod(0o700)
    settings.UNDERSTUDY_FAILOVER_COMMANDS = {"move": str(path)}
    monkeypatch.setattr(hooks, "COMMAND_S", 1.0)
    yield tmp_path
    if (started := tmp_path / "consumer").exists():
        os.kill(int(started.read_text()), signal.SIGKILL)


def test_commands_start_consumers_and_redirect_producers_and_a_person_does_what_no_command_can(
    world: World, move: Path
) -> None:
    topic = copied(world)
    world.set(
        failover_fence="person",
        failover_start_consumers="command",
        failover_redirect_producers="command",
        failover_command="move",
    )
    run = finish(world, topic, begin(world))
    assert (run.state, run.waits_for) == ("waiting", "person")
    assert "Prevent producers from writing" in run.reason
    commands.confirm(run=run, who="ben")
    run = finish(world, topic, run)
    assert (run.state, run.waits_for) == ("waiting", "trouble")
    assert "The command move exited with 3: no place to start." in run.reason
    group = group_of(world)
    tp = (world.remote(topic), 0)
    stands = read_offsets(world.copy.target.spec, {group: [tp]}).done[group].done[tp]
    assert stands == GroupOffset(world.truth(topic)[sorted(world.truth(topic))[15]])
    world.commit_there(group, topic, stands.offset + 1)
    commands.resume(run=run, who="ben")
    run = finish(world, topic, run)
    assert (run.state, run.waits_for) == ("waiting", "trouble")
    assert "did not end within 1 s" in run.reason
    commands.resume(run=run, who="ben")
    run = finish(world, topic, run)
    assert run.state == "succeeded", run.reason
    steps = {step.name: step for step in run.steps.all()}
    assert steps["fence_producers"].confirmed_by == "ben"
    assert {steps[name].state for name in ("start_consumers", "redirect_producers")} == {
        "succeeded"
    }
    # What it left running outlives it: the step was done when the command itself ended.
    os.kill(int((move / "consumer").read_text()), 0)
    assert (move / "called").read_text().split("\n")[:-1] == [
        *["start_consumers do"] * 2, *["redirect_producers do"] * 2
    ]  # fmt: skip


def test_an_abort_takes_away_the_offsets_and_groups_that_were_not_there_before(
    world: World,
) -> None:
    topic, made = copied(world), group_of(world)
    target = world.copy.target.spec
    own, stood, elsewhere = f"{made}-own", f"{made}-stood", unique("own")
    world.copy.target.make(elsewhere)
    for group in (own, stood):
        world.commit(group, topic, sorted(world.truth(topic))[15])
    write_offsets(target, own, {(elsewhere, 0): GroupOffset(0)}).raise_first()
    world.commit_there(stood, topic, 1)
    world.set(failover_start_consumers="person")
    run = finish(world, topic, begin(world, "failover"))
    assert run.waits_for == "person"
    assert {group: world.stands(group, topic) is None for group in (made, own)} == {
        made: False, own: False
    }  # fmt: skip
    lifecycle.abort_run(run=run, who="ann")
    advance(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "aborted", run.reason
    assert "1 offset restored, 2 offsets deleted where there was none" in run.reason
    assert made not in list_groups(target)
    found = read_offsets(target, {own: None}).raise_first().done[own].done
    assert found == {(elsewhere, 0): GroupOffset(0)}
    assert world.stands(stood, topic) == GroupOffset(1)

"""A state changes only as its machine declares, in every service."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from controlplane.management.commands.write_states import ALL
from mirrors.domain.state_machine import ForbiddenTransition
from mirrors.domain.states.sync import SYNC_RUN
from mirrors.models import (
    Comparison,
    Drift,
    FailoverRun,
    Flow,
    FlowPlan,
    Gap,
    Job,
    Runner,
    Transition,
    claim,
)
from mirrors.models.audit.transitions import record
from mirrors.models.base import StateField, machine_of, move, move_all
from spark_runner.flow.state import PHASES
from tests.pages import world

pytestmark = pytest.mark.django_db

FIELDS = [
    (model, field)
    for app in ("mirrors", "monitoring")
    for model in apps.get_app_config(app).get_models()
    for field in model._meta.get_fields()
    if isinstance(field, StateField)
]
ROOT = Path(__file__).parents[2]
WRITERS = ("mirrors/services", "monitoring")
# It writes a local variable, which has no declared machine.
WITHOUT_MACHINE = {"mirrors/services/heartbeats/schedule.py"}


@pytest.mark.parametrize(("model", "field"), FIELDS)
def test_choices_and_default_come_from_the_declaration(model: Any, field: StateField) -> None:
    assert [name for name, _ in field.flatchoices] == list(field.machine.names)
    assert field.default in field.machine.initial
    assert machine_of(model, field.name) is field.machine


def test_each_machine_has_one_column_except_for_runs_of_sync_tasks() -> None:
    declared = {id(machine) for machine in ALL.values()} - {id(PHASES), id(SYNC_RUN)}
    assert len(FIELDS) == len(declared)
    assert {id(field.machine) for _, field in FIELDS} == declared


def test_every_choice_of_states_comes_from_a_declaration() -> None:
    plain = [
        f"{model.__name__}.{field.name}"
        for app in ("mirrors", "monitoring")
        for model in apps.get_app_config(app).get_models()
        for field in model._meta.get_fields()
        if field.name.endswith("state") and getattr(field, "choices", None)
        if not isinstance(field, StateField)
    ]
    assert plain == []


def _rows() -> list[Any]:
    flow, now = world.flow(world.cluster("primary"), world.cluster("backup")), timezone.now()
    there = {"flow": flow, "opened_at": now, "seen_at": now}
    return [
        Comparison.objects.create(flow=flow, seconds=1, megabytes=1, requested_by="ann"),
        FailoverRun.objects.create(flow=flow, kind="simulation", requested_by="ann"),
        Gap.objects.create(**there, topic="orders", partition=0, kind="deleted"),
        Drift.objects.create(**there, kind="acl", name="orders", place="a"),
        FlowPlan.objects.create(flow=flow, since=now),
    ]


def test_random_changes_take_declared_transitions_only() -> None:
    chance = random.Random(5)
    for row in _rows():
        machine, rows = machine_of(type(row), "state"), type(row).objects.filter(pk=row.pk)
        for _ in range(60):
            before, after = rows.get().state, chance.choice(machine.names)
            if before == after or (before, after) in machine.transitions:
                assert claim(rows, state=after, reason="So.", who="ann")
            else:
                with pytest.raises(ForbiddenTransition):
                    claim(rows, state=after, reason="So.", who="ann")
                assert rows.get().state == before
            if rows.get().state in machine.final:
                rows.update(state=chance.choice(sorted(machine.initial)))
        changes = Transition.objects.filter(subject=row._meta.model_name)
        assert changes
        assert set(changes.values_list("from_state", "to_state")) <= machine.transitions


def test_a_first_state_and_a_change_without_an_entry_are_checked_too() -> None:
    comparison, run, gap, drift, _ = _rows()
    comparison.state = "running"
    with pytest.raises(ForbiddenTransition):
        record(comparison, field="state", before="", who="ann", why="Requested.")
    with pytest.raises(ForbiddenTransition):
        move(run, "succeeded")
    assert run.state == "queued"
    assert move_all(Gap.objects.filter(pk=gap.pk), state="open") == 0
    assert move_all(Drift.objects.filter(pk=drift.pk), state="fixing", reason="So.") == 1
    assert Drift.objects.get(pk=drift.pk).reason == "So."


def test_no_service_writes_a_state_past_the_check() -> None:
    name = "(?:observed_|desired_)?state"
    update = rf"\.update\((?:[^()]|\([^()]*\))*\b{name}="
    direct = re.compile(rf"{update}|\w\.{name}(?:, [\w.]+)* = ")
    found = {
        str(path.relative_to(ROOT))
        for folder in WRITERS
        for path in (ROOT / folder).rglob("*.py")
        if direct.search(path.read_text(encoding="utf-8"))
    }
    assert found == WITHOUT_MACHINE


def test_a_surprising_row_stops_no_observation(caplog: pytest.LogCaptureFixture) -> None:
    """A row of another version, or one that somebody repaired in the database."""
    flow = world.flow(world.cluster("primary"), world.cluster("backup"))
    runner, job = flow.runner, world.job(flow)
    Runner.objects.filter(pk=runner.pk).update(state="resting")
    Flow.objects.filter(pk=flow.pk).update(observed_state="resting")
    Job.objects.filter(pk=job.pk).update(state="lost")
    assert claim(Runner.objects.filter(pk=runner.pk), state="ready", reason="", who="me")
    assert claim(Flow.objects.filter(pk=flow.pk), observed_state="running", reason="", who="me")
    assert claim(Job.objects.filter(pk=job.pk), state="running", reason="", who="me")
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3
    assert "resting may not become ready" in caplog.text
    caplog.clear()
    assert [row.to_state for row in Transition.objects.all()[:3]] == ["running", "running", "ready"]


def test_an_undeclared_order_is_refused() -> None:
    flow = world.flow(world.cluster("primary"), world.cluster("backup"))
    Flow.objects.filter(pk=flow.pk).update(desired_state="stopped")
    with pytest.raises(ForbiddenTransition, match="stopped may not become paused"):
        claim(Flow.objects.filter(pk=flow.pk), desired_state="paused", reason="", who="ann")

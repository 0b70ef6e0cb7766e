"""A state changes only as its machine declares, in every service."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from mirrors.domain.state_machine import ForbiddenTransition
from mirrors.models import Comparison, Drift, FailoverRun, Gap, Transition, claim
from mirrors.models.base import StateField, machine_of, move, move_all
from mirrors.models.transitions import record
from tests.pages import world

pytestmark = pytest.mark.django_db

FIELDS = [
    (model, field)
    for model in apps.get_app_config("mirrors").get_models()
    for field in model._meta.get_fields()
    if isinstance(field, StateField)
]
SERVICES = Path(__file__).parents[2] / "mirrors/services"
# They write the plan of a flow's target and a local variable, which have no declared machine.
WITHOUT_MACHINE = {"heartbeats/schedule.py", "topics/plans.py"}


@pytest.mark.parametrize(("model", "field"), FIELDS)
def test_choices_and_default_come_from_the_declaration(model: Any, field: StateField) -> None:
    assert [name for name, _ in field.flatchoices] == list(field.machine.names)
    assert field.default in field.machine.initial
    assert machine_of(model, field.name) is field.machine


def test_nine_machines_have_a_column() -> None:
    assert len(FIELDS) == len({id(field.machine) for _, field in FIELDS}) == 9


def _rows() -> list[Any]:
    flow, now = world.flow(world.cluster("primary"), world.cluster("backup")), timezone.now()
    there = {"flow": flow, "opened_at": now, "seen_at": now}
    return [
        Comparison.objects.create(flow=flow, seconds=1, megabytes=1, requested_by="ann"),
        FailoverRun.objects.create(flow=flow, kind="simulation", requested_by="ann"),
        Gap.objects.create(**there, topic="orders", partition=0, kind="deleted"),
        Drift.objects.create(**there, kind="acl", name="orders", place="a"),
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
    comparison, run, gap, drift = _rows()
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
    direct = re.compile(r"\.update\((?:[^()]|\([^()]*\))*\bstate=|\w\.state(?:, [\w.]+)* = ")
    found = {
        str(path.relative_to(SERVICES))
        for path in SERVICES.rglob("*.py")
        if direct.search(path.read_text(encoding="utf-8"))
    }
    assert found == WITHOUT_MACHINE

"""A drill from its schedule to the public page, on real clusters: its numbers are true."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.celery import app
from mirrors import tasks
from mirrors.domain.drills.objectives import Objectives
from mirrors.models import Certificate, Drill, DrillRun, Flow
from mirrors.services.drills import schedules
from mirrors.services.drills.certificates import issuance
from mirrors.services.drills.objectives import set_objectives
from tests.mirrors.test_simulation import SimulatedFlow, flow, scene

__all__ = ["flow", "scene"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def run_drills(
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> Iterator[Callable[[], None]]:
    """Runs the task, then in this process what it sent with its commit."""

    def run() -> None:
        with django_capture_on_commit_callbacks(execute=True):
            tasks.run_drills()

    app.conf.task_always_eager = True
    yield run
    app.conf.task_always_eager = False


def test_a_drill_runs_from_cron_and_leaves_a_certificate_that_the_public_page_verifies(
    scene: SimulatedFlow, flow: Flow, signing_key: Path, run_drills: Callable[[], None]
) -> None:
    group = scene.group("drill", 7)
    objectives = Objectives(rpo_records=scene.lost, rto_seconds=60)
    set_objectives(flow=flow, wanted=objectives, who="eve")
    schedules.create_drill(
        flow=flow, schedule="* * * * *", time_zone="Asia/Tokyo", groups=[group], who="ann"
    )
    Drill.objects.update(since=timezone.now() - timedelta(minutes=2))

    run_drills()
    Drill.objects.update(enabled=False)
    run_drills()

    run = DrillRun.objects.get()
    assert run.state == "passed", run.reason
    assert (run.measured["loss"], run.measured["proven"]) == (scene.lost, run.measured["places"])
    assert run.measured["rto_ms"] > 0
    text = run.certificate.text
    document = json.loads(text)
    assert document["scope"]["groups"] == [group]
    assert scene.topic in document["scope"]["topics"]
    evidence = issuance.evidence_of(run.run)
    assert evidence is not None
    assert hashlib.sha256(evidence).hexdigest() == document["evidence"]["digest"]
    assert "Genuine." in Client().post("/verify/", {"text": text}).content.decode()
    changed = text.replace(f'"loss":{scene.lost}', '"loss":0', 1)
    assert changed != text
    assert "Not genuine." in Client().post("/verify/", {"text": changed}).content.decode()
    assert scene.left_over() == []


def test_a_drill_that_misses_its_objective_is_certified_as_failed_by_how_much(
    scene: SimulatedFlow,
    flow: Flow,
    signing_key: Path,
    run_drills: Callable[[], None],
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    set_objectives(flow=flow, wanted=Objectives(rpo_records=scene.lost - 3), who="eve")
    with django_capture_on_commit_callbacks(execute=True):
        schedules.request_drill(flow=flow, groups=[scene.group("drill", 7)], who="ann")
    tasks.run_drills()
    tasks.run_drills()
    document = json.loads(Certificate.objects.get().text)
    (breach,) = document["breaches"]
    assert document["result"] == "failed"
    assert (breach["objective"], breach["found"], breach["by"]) == ("rpo_records", scene.lost, 3)

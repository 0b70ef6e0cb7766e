"""A run's script comes from its page and over REST; without a plan it says why there is none."""

from __future__ import annotations

import subprocess

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.failover.plan import plan_failover
from mirrors.models import FailoverRun, Flow
from tests.domain.test_failover import GroupSnapshot, make_group_partition, partition, picture
from tests.pages import world


@pytest.fixture
def run(db: None) -> FailoverRun:
    flow: Flow = world.busy()
    groups = (
        GroupSnapshot(
            group="it's $(x)", group_partitions=(make_group_partition(group="it's $(x)"),)
        ),
    )
    plan = plan_failover(picture(partitions=(partition(),), groups=groups))
    return FailoverRun.objects.create(
        flow=flow,
        kind="simulation",
        state="succeeded",
        requested_by="ann",
        mark="m",
        plan=plan.to_dict(),
        ended_at=timezone.now(),
    )


def test_the_page_offers_the_script_and_both_ways_give_the_same(
    viewer: Client, run: FailoverRun
) -> None:
    page = viewer.get(f"/failovers/{run.pk}/").content.decode()
    assert f'href="/failovers/{run.pk}/script/"' in page
    answer = viewer.get(f"/failovers/{run.pk}/script/")
    name = f"failover-{run.flow.source.alias}-{run.flow.target.alias}-{run.pk}.sh"
    assert answer["Content-Disposition"] == f'attachment; filename="{name}"'
    text = answer.content.decode()
    assert text.startswith("#!/usr/bin/env bash\n")
    assert """'it'"'"'s $(x)'""" in text
    assert subprocess.run(["bash", "-n"], input=text, text=True, timeout=30).returncode == 0
    rest = viewer.get(f"/api/v1/failovers/{run.pk}/script/")
    assert (rest.status_code, rest.content) == (200, answer.content)
    assert rest["Content-Type"].startswith("text/x-shellscript")


def test_a_run_without_a_plan_says_why_it_has_no_script(viewer: Client, run: FailoverRun) -> None:
    FailoverRun.objects.update(plan=None)
    assert viewer.get(f"/failovers/{run.pk}/script/").url == f"/failovers/{run.pk}/"
    refused = viewer.get(f"/api/v1/failovers/{run.pk}/script/")
    assert refused.status_code == 409
    assert "has no plan" in refused.json()["error"]["message"]
    assert viewer.get("/api/v1/failovers/999999/script/").status_code == 404
    page = viewer.get(f"/failovers/{run.pk}/").content.decode()
    assert "/script/" not in page

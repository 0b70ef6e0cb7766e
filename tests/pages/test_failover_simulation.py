"""Failover pages: one click starts a simulation; its run, result and downloads."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.failover.plan import plan_failover
from mirrors.domain.failover.preconditions import DriftFinding, FenceSupport, TargetTopics
from mirrors.domain.failover.read_verification import ReadVerification
from mirrors.domain.failover.simulation_result import (
    GroupReadResult,
    RangeLoss,
    group_partition_result,
    sentence,
    sum_up,
    to_json,
)
from mirrors.models import FailoverRun, Flow
from mirrors.services.failover import lifecycle
from mirrors.services.failover.simulation import simulator
from tests.domain.test_failover import GroupSnapshot, make_group_partition, partition, picture
from tests.pages import world
from tests.pages.conftest import As


@pytest.fixture
def flow(db: None) -> Flow:
    return world.busy()


def finished(flow: Flow, group: str = "billing", **proof: Any) -> FailoverRun:
    return finish(simulator.request_simulation(flow=flow, who="tester"), group, **proof)


def finish(run: FailoverRun, group: str = "billing", **proof: Any) -> FailoverRun:
    """Give a run a plan and a result, as a worker would, over two partitions."""
    rows = (partition(), partition(partition=1, source_end=None))
    groups = (GroupSnapshot(group=group, group_partitions=(make_group_partition(group=group),)),)
    seen: dict[str, Any] = {"partitions": rows, "groups": groups, "writing": "It still writes."}
    gone = DriftFinding(kind="deleted topic", name="east.old", sentence="east.old was deleted.")
    seen["target_topics"] = TargetTopics(drifted=(gone,))
    seen["fence"] = FenceSupport(how="acl", fallback="person", refused="It has no authorizer.")
    plan = plan_failover(picture(**seen))
    facts: dict[str, Any] = {"verdict": "proven", "reason": "the same", "re_reads": 0, **proof}
    losses = [RangeLoss(records=7, unread=7, how="counted")]
    found = [
        group_partition_result(
            row,
            loss=losses[0],
            reading=GroupReadResult(first_offset=55, first_record_ms=12, records=16),
            proof=ReadVerification(**facts),
            rate=1000.0,
        )
        for row in plan.places
    ]
    totals = sum_up(found, losses)
    lifecycle.take_run(run_id=run.pk)
    words = sentence(plan, totals, source="primary", target="backup")
    lifecycle.end_run(
        run_id=run.pk,
        state="succeeded",
        reason=words,
        swept=True,
        plan=plan.to_dict(),
        result=to_json(found, totals, sentence=words, source_trouble=""),
    )
    return FailoverRun.objects.get(pk=run.pk)


def test_one_click_on_a_flow_asks_for_a_simulation_and_shows_it_live(
    signed_in: As, flow: Flow
) -> None:
    browser = signed_in("operator")
    page = browser.get(f"/flows/{flow.pk}/").content.decode()
    assert f'action="/flows/{flow.pk}/simulate/"' in page
    answer = browser.post(f"/flows/{flow.pk}/simulate/")
    run = FailoverRun.objects.get()
    assert answer.url == f"/failovers/{run.pk}/"
    shown = browser.get(answer.url).content.decode()
    assert 'data-every="1"' in shown
    for step in run.steps.all():
        assert step.does in shown
    # A second click leads to the same run.
    assert browser.post(f"/flows/{flow.pk}/simulate/").url == answer.url
    assert FailoverRun.objects.count() == 1
    browser.post(f"/failovers/{run.pk}/abort/")
    ended = browser.get(answer.url).content.decode()
    assert "Aborted by the-operator" in ended
    assert "data-every" not in ended


def test_a_viewer_reads_runs_but_asks_for_none(viewer: Client, flow: Flow) -> None:
    run = finished(flow)
    assert viewer.post(f"/flows/{flow.pk}/simulate/").status_code == 403
    assert viewer.post(f"/failovers/{run.pk}/abort/").status_code == 403
    assert viewer.get("/failovers/").status_code == 200
    assert viewer.get(f"/failovers/{run.pk}/").status_code == 200


def test_the_result_says_what_is_lost_read_twice_and_to_be_done(viewer: Client, flow: Flow) -> None:
    run = finished(flow)
    page = viewer.get(f"/failovers/{run.pk}/").content.decode()
    for words in (
        "If primary fails now, 7 records would be lost.",
        "verified by reading it",
        "It still writes.",
        # Nobody has to do manually what the run itself does first.
        "done by the run",
        "blocker",
        r"east\.orders|orders",
        "the source is unreachable, and no earlier end offset of it is known",
        "No records are re-read.",
    ):
        assert words in page
    for link in (f"/flows/{flow.pk}/jobs/", f"/flows/{flow.pk}/drift/", "/clusters/primary/"):
        assert f'<a href="{link}">' in page
    assert run.plan["digest"][:12] in page
    assert run.reason in viewer.get("/failovers/").content.decode()


def test_a_simulation_that_verified_nothing_is_not_green(viewer: Client, flow: Flow) -> None:
    run = finished(flow, verdict="unproven")
    reason = "The one group-partition is not verified."
    FailoverRun.objects.update(verification="not_verified", verification_reason=reason)
    shown = viewer.get(f"/failovers/{run.pk}/").content.decode()
    listed = viewer.get("/failovers/").content.decode()
    for page in (shown, listed):
        assert 'data-state="not_verified"' in page
        assert reason in page
    assert 'class="notice" data-state="critical"' in shown
    assert 'data-state="succeeded"' not in listed
    assert "No run matches" in viewer.get("/failovers/?verification=verified").content.decode()


def test_an_empty_list_says_what_to_do(viewer: Client, db: None) -> None:
    assert "Nothing simulated yet" in viewer.get("/failovers/").content.decode()


def test_all_places_download_and_no_name_becomes_markup_or_a_formula(
    viewer: Client, flow: Flow
) -> None:
    hostile = "=cmd|'<script>alert(1)</script>"
    run = finished(flow, hostile, verdict="differs", re_reads=3)
    page = viewer.get(f"/failovers/{run.pk}/").content.decode()
    assert "<script>alert" not in page
    assert "wrong record" in page
    text = b"".join(viewer.get(f"/failovers/{run.pk}/?as=csv")).decode()  # type: ignore[arg-type]
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["group"] == f"'{hostile}"
    assert (row["verdict"], row["re_reads"], row["loss"]) == ("differs", "3", "7")
    text = b"".join(viewer.get(f"/failovers/{run.pk}/?as=csv&of=findings")).decode()  # type: ignore[arg-type]
    found = list(csv.DictReader(io.StringIO(text)))
    assert {"weight": "blocker", "code": "writing", "page": "jobs"}.items() <= found[0].items()
    assert found[-1]["weight"] == "warning"
    text = b"".join(viewer.get(f"/failovers/{run.pk}/?as=json")).decode()  # type: ignore[arg-type]
    assert json.loads(text)[0]["group"] == hostile


def test_what_to_know_is_read_before_a_real_run_is_begun(signed_in: As, flow: Flow) -> None:
    run = finished(flow)
    assert run.plan is not None
    page = signed_in("operator").get(f"/flows/{flow.pk}/failover/?kind=failover").content.decode()
    assert "Do this yourself:" in page
    # The fence that will be used, and what a person has to do for it.
    assert "ACLs cannot fence primary: It has no authorizer. A person fences" in page
    assert "ACLs deny WRITE" not in page
    assert run.plan["warnings"][0]["sentence"] in page


def test_an_old_result_says_so(viewer: Client, flow: Flow) -> None:
    run = finished(flow)
    FailoverRun.objects.update(ended_at=timezone.now() - timedelta(hours=2))
    page = viewer.get(f"/failovers/{run.pk}/").content.decode()
    assert "Simulate again before you fail over" in page

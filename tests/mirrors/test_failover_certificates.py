"""Certificates of real runs: signed once; a later count gives a second certificate."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.drills.certificates.tables import tables_of, title_of
from mirrors.domain.failover.runbook.steps import STEPS
from mirrors.domain.formatting import arrow
from mirrors.models import Certificate, FailoverRun, FailoverStep, Flow
from mirrors.services.drills.certificates import issuance
from tests.pages import world
from tests.pages.conftest import As, signed_in  # noqa: F401 - a fixture

LEFT = {"topic": "audit", "partition": None, "sentence": "audit is left behind by ben."}
SAID = {
    "loss": 2_485, "loss_certainty": "at_least", "loss_unknown": 0,
    "re_reads": 0, "re_reads_certainty": "at_least", "re_reads_unknown": 0,
    "moved": 3, "not_moved": 0,
}  # fmt: skip
COUNTED = {
    "loss": 2_844, "loss_certainty": "counted", "loss_unknown": 0,
    "re_reads": 1_015, "re_reads_certainty": "counted", "re_reads_unknown": 0,
    "sentence": "Counted on primary afterwards: 2,844 records were not replicated.",
}  # fmt: skip


@pytest.fixture
def flow(db: None, signing_key: Path) -> Flow:
    return world.flow()


def ended(flow: Flow, **facts: Any) -> FailoverRun:
    now = timezone.now()
    run = FailoverRun.objects.create(
        flow=flow, kind="failover", state="succeeded", mark="m", requested_by="ann", why="fire",
        started_at=now - timedelta(seconds=9), ended_at=now, verification="not_verified",
        verification_reason="None is verified.", reason="At least 2,485 records.",
        plan={
            "partitions": [{"topic": "orders", "partition": 0}], "places": [], "loss": 2_485,
            "re_reads": 0,
        },
        result={
            "sentence": "At least 2,485 records.", "totals": SAID, "partitions": [],
            "left_behind": [LEFT],
        },
        **facts,
    )  # fmt: skip
    for number, step in enumerate(STEPS, start=1):
        FailoverStep.objects.create(
            run=run, number=number, name=step.name, does=step.title, state="succeeded"
        )
    return run


def test_what_is_counted_later_is_signed_beside_the_first_which_stays_genuine(
    flow: Flow, client: Client
) -> None:
    run = ended(flow)
    assert issuance.issue_missing(now=timezone.now()) == 1
    assert issuance.issue_missing(now=timezone.now()) == 0
    first = Certificate.objects.get()
    document = json.loads(first.text)
    assert (document["totals"]["loss"], document["counted"]) == (2_485, None)
    assert document["left_behind"] == [LEFT]
    evidence = issuance.evidence_of(run)
    assert evidence is not None
    assert hashlib.sha256(evidence).hexdigest() == document["evidence"]["digest"]

    counted_at = timezone.now()
    rows = {"partitions": [], "places": []}
    FailoverRun.objects.update(counted=COUNTED, counted_rows=rows, counted_at=counted_at)
    assert issuance.issue_missing(now=timezone.now()) == 1
    assert issuance.issue_missing(now=timezone.now()) == 0
    later = Certificate.objects.get(supplements=first)
    added = json.loads(later.text)
    assert (added["counted"]["loss"], added["totals"]["loss"]) == (2_844, 2_485)
    digest = hashlib.sha256(first.text.encode()).hexdigest()
    assert added["supplements"] == {"number": first.number, "digest": digest}
    assert added["evidence"]["digest"] == document["evidence"]["digest"]
    for one in (first, later):
        assert issuance.verify_text(text=one.text.encode()).genuine
        assert "Genuine." in client.get(f"/verify/{one.number}/").content.decode()
    changed = later.text.replace("2844", "0")
    assert issuance.verify_text(text=changed.encode()).code == "changed"
    said = " ".join(" ".join(row) for sheet in tables_of(added) for row in sheet.rows)
    assert "at least 2,485 records" in said
    assert "2,844 records" in said
    assert LEFT["sentence"] in said
    assert title_of(added) == f"Failover of {arrow(flow.name)}: counted afterwards"


def test_a_run_that_was_counted_before_it_ended_has_one_certificate(flow: Flow) -> None:
    ended(flow, counted=COUNTED, counted_rows={}, counted_at=timezone.now())
    assert issuance.issue_missing(now=timezone.now()) == 1
    assert issuance.issue_missing(now=timezone.now()) == 0
    assert json.loads(Certificate.objects.get().text)["counted"]["loss"] == 2_844


def test_pages_and_files_lead_from_the_run_to_both(
    flow: Flow,
    signed_in: As,  # noqa: F811
) -> None:
    run = ended(flow)
    issuance.issue_missing(now=timezone.now())
    FailoverRun.objects.update(counted=COUNTED, counted_at=timezone.now())
    issuance.issue_missing(now=timezone.now())
    viewer = signed_in("viewer")
    page = viewer.get(f"/failovers/{run.pk}/").content.decode()
    for one in Certificate.objects.all():
        assert f"/certificates/{one.number}/" in page
        shown = viewer.get(f"/certificates/{one.number}/")
        assert "Open the run" in shown.content.decode()
        assert viewer.get(f"/certificates/{one.number}/pdf").content.startswith(b"%PDF")
    assert "2,844 records" in page
    assert COUNTED["sentence"] in page
    assert COUNTED["sentence"] in viewer.get("/failovers/").content.decode()


def test_a_run_of_one_application_says_so(flow: Flow, client: Client) -> None:
    ended(flow, scope={"topics": ["shop\\..*"], "groups": []})
    issuance.issue_missing(now=timezone.now())
    document = json.loads(Certificate.objects.get().text)
    assert document["scope"]["application"] == {"topics": ["shop\\..*"], "groups": []}
    assert title_of(document) == f"Failover of one application of {arrow(flow.name)}: succeeded"
    rows = {row for sheet in tables_of(document) for row in sheet.rows}
    assert ("Extent", "One application; the flow went on with its other topics") in rows
    assert ("Topics by pattern", "shop\\..*") in rows
    assert ("Groups by pattern", "each group with an offset in one of the topics") in rows
    # Certificates that were issued before say nothing of an application.
    del document["scope"]["application"]
    assert title_of(document) == f"Failover of {arrow(flow.name)}: succeeded"
    assert not any(row[0] == "Extent" for sheet in tables_of(document) for row in sheet.rows)

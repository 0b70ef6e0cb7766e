"""Comparison pages: the form, a run followed live, findings sorted, filtered and downloaded."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.test import Client

from mirrors.models import Comparison, ComparisonFinding, ComparisonPart, Flow
from mirrors.services.comparison import lifecycle
from tests.pages import world
from tests.pages.conftest import As

ASKED = {"records": "500", "seconds": "30", "megabytes": "10"}


@pytest.fixture
def flow(db: None) -> Flow:
    return world.busy()


def finished(flow: Flow) -> Comparison:
    """As a worker leaves it: one partition differs, one was not read."""
    run = lifecycle.request_comparison(flow=flow, who="tester")
    places = {"comparison": run, "topic": "orders", "remote_topic": "primary.orders"}
    ComparisonPart.objects.create(
        **places, partition=0, verdict="differs", differences=1, source_records=7, next=7
    )
    why = "There is no map of its offsets."
    ComparisonPart.objects.create(**places, partition=1, verdict="unread", unread=3, reason=why)
    ComparisonFinding.objects.create(
        comparison=run,
        about="content",
        kind="changed",
        weight="differs",
        name="=orders<script>",
        partition=0,
        source_offset=4,
        target_offset=5,
        sentence="orders-0 offset 4 is another record on the target: its value differs.",
    )
    aspect = {"about": "config", "compared": 9, "differs": 0, "left_out": "One is not known."}
    content = {"partitions": 2, "same": 0, "differs": 1, "source_records": 7}
    content |= {"target_records": 7, "differences": 1, "unread": 3, "unread_partitions": 1}
    assert lifecycle.claim_comparison(comparison_id=run.pk) is not None
    lifecycle.end_comparison(
        comparison_id=run.pk,
        state="succeeded",
        reason="1 difference in content between primary and backup.",
        verdict="differs",
        summary={"aspects": [aspect], "content": content},
    )
    return Comparison.objects.get(pk=run.pk)


def test_an_operator_asks_by_a_form_and_follows_it_live(signed_in: As, flow: Flow) -> None:
    browser = signed_in("operator")
    form = browser.get(f"/add/comparison/?flow={flow.pk}").content.decode()
    assert f'<option value="{flow.pk}" selected>' in form
    body = {**ASKED, "flow": flow.pk, "topics": "orders, bills", "content": "on", "why": "audit"}
    answer = browser.post("/add/comparison/", body)
    run = Comparison.objects.get()
    assert answer.url == f"/comparisons/{run.pk}/"
    assert (run.topics, run.records, run.seconds) == (["bills", "orders"], 500, 30)
    shown = browser.get(answer.url).content.decode()
    assert 'data-every="1"' in shown
    assert "Waiting for a worker." in shown
    again = browser.post("/add/comparison/", body)
    assert again.status_code == 400
    assert "is already running" in again.content.decode()
    browser.post(f"/comparisons/{run.pk}/abort/")
    ended = browser.get(answer.url).content.decode()
    assert "Aborted by the-operator" in ended
    assert "data-every" not in ended


def test_an_error_is_shown_at_its_field(signed_in: As, flow: Flow) -> None:
    body = {**ASKED, "flow": flow.pk, "seconds": "0"}
    page = signed_in("operator").post("/add/comparison/", body).content.decode()
    assert world.error_at(page, "seconds")
    assert not Comparison.objects.exists()


def test_a_viewer_reads_but_asks_for_nothing(viewer: Client, flow: Flow) -> None:
    run = finished(flow)
    assert viewer.post("/add/comparison/", {**ASKED, "flow": flow.pk}).status_code == 403
    assert viewer.post(f"/comparisons/{run.pk}/abort/").status_code == 403
    assert "Needs the role operator" in viewer.get("/comparisons/").content.decode()
    page = viewer.get(f"/comparisons/{run.pk}/").content.decode()
    for words in ("1 difference in content", "its value differs", "One is not known.", "Settings"):
        assert words in page
    assert "<script>" not in page.replace("<script src", "")
    page = viewer.get(f"/comparisons/{run.pk}/partitions/?verdict=unread").content.decode()
    assert "There is no map of its offsets." in page


def test_both_tables_download_whole(viewer: Client, flow: Flow) -> None:
    run = finished(flow)
    text = b"".join(viewer.get(f"/comparisons/{run.pk}/?as=csv")).decode()  # type: ignore[arg-type]
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["name"], row["source_offset"]) == ("'=orders<script>", "4")
    path = f"/comparisons/{run.pk}/partitions/?as=json"
    found = json.loads(b"".join(viewer.get(path)))  # type: ignore[arg-type]
    assert [(part["partition"], part["unread"]) for part in found] == [(0, 0), (1, 3)]


def test_an_empty_list_says_what_a_comparison_is(viewer: Client, db: None) -> None:
    assert "Nothing compared yet" in viewer.get("/comparisons/").content.decode()

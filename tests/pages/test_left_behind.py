"""The page on which a person leaves a topic behind: the form, its errors, the list."""

from __future__ import annotations

import pytest
from django.test import Client

from mirrors.models import Flow, LeftBehind
from tests.pages import world
from tests.pages.conftest import As


@pytest.fixture
def flow(db: None) -> Flow:
    return world.busy()


def test_a_decision_is_made_on_the_page_shown_and_withdrawn(signed_in: As, flow: Flow) -> None:
    browser, path = signed_in("operator"), f"/flows/{flow.pk}/left-behind/"
    page = browser.get(f"{path}?topic=orders&partition=2").content.decode()
    assert 'value="orders"' in page
    assert "Nothing is left behind" in page
    made = browser.post(path, {"topic": "orders", "partition": "2", "reason": "<b>moved</b>"})
    assert made.url == path
    (row,) = LeftBehind.objects.all()
    assert (row.topic, row.partition, row.decided_by) == ("orders", 2, "the-operator")
    shown = browser.get(path).content.decode()
    assert "&lt;b&gt;moved&lt;/b&gt;" in shown
    assert browser.post(f"{path}{row.pk}/withdraw/").url == path
    row.refresh_from_db()
    assert row.withdrawn_by == "the-operator"
    assert "Withdrawn: 1" in browser.get(path).content.decode()
    assert "orders-2" in browser.get(f"/flows/{flow.pk}/events/?by=people").content.decode()


def test_errors_are_shown_at_their_fields(signed_in: As, flow: Flow) -> None:
    browser, path = signed_in("operator"), f"/flows/{flow.pk}/left-behind/"
    answer = browser.post(path, {"topic": "orders", "partition": "x", "reason": "why"})
    assert answer.status_code == 422
    assert "leave it empty for the whole topic" in answer.content.decode()
    assert browser.post(path, {"topic": "orders", "reason": ""}).status_code == 422
    assert browser.post(path, {"topic": "orders", "reason": "a"}).status_code == 302
    again = browser.post(path, {"topic": "orders", "reason": "a"})
    assert again.status_code == 409
    assert "already left behind" in again.content.decode()


def test_a_viewer_reads_the_decisions_and_makes_none(viewer: Client, flow: Flow) -> None:
    path = f"/flows/{flow.pk}/left-behind/"
    assert viewer.get(path).status_code == 200
    assert viewer.post(path, {"topic": "orders", "reason": "a"}).status_code == 403

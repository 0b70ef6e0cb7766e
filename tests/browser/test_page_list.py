"""The browser tests cover every page."""

from __future__ import annotations

from django.urls import resolve

from tests.browser.test_appearance import PAGES
from tests.pages import test_every_page

# Looked at by tests of their own, in states that rows alone do not give them.
ELSEWHERE = {"flow-charts", "comparison", "comparison-part", "failover", "flow-failover"}
# The template of another page that is looked at, with other words in it.
SAME = {
    "cluster-add",
    "runner-delete",
    "runner-edit",
    "drill-edit",
    "alert-rule-edit",
    "channel-edit",
    "cluster-delete",
    "drill-delete",
    "alert-rule-delete",
    "channel-delete",
}
ANY = {"pk": 1, "job": 1, "person": 1, "switch": 1}


def test_every_page_is_looked_at() -> None:
    seen = {_kind(path) for path in PAGES.values()}
    asked = {_kind(path) for path, _ in test_every_page.PAGES}
    assert {kind for kind in asked - seen if kind[0] not in ELSEWHERE | SAME} == set()


def _kind(path: str) -> tuple[str | None, str]:
    """The name of an address, and which part of a page it is."""
    found = resolve(path.format(**ANY).split("?")[0])
    return found.url_name, str(found.kwargs.get("part", ""))

"""Every table of every page has a CSV and a JSON download with what the page shows."""

from __future__ import annotations

import dataclasses
import json
from html.parser import HTMLParser

import pytest
from django.test import Client

from mirrors.models import Comparison, Flow
from tests.pages.full import full
from tests.pages.page_list import READING

MORE = (
    "/failovers/{next}/",
    "/comparisons/{compared}/",
    "/comparisons/{compared}/partitions/",
    "/failbacks/{pk}/orphans/{pk}/",
    "/people/",
    "/people/grants/",
    "/add/flow/?preview={pk}",
    "/flows/{pk}/rules/?preview={pk}",
)
# What has no rows that anybody would take away.
NO_LISTS = {
    ("/help/", "Table of states"): "a legend",
    ("/certificates/", "Table: "): "a signed document, which is itself a file to download",
}
# The same pages once more; and a reference, which is there as an OpenAPI document.
NOT_ASKED = {
    "/comparisons/{pk}/",
    "/comparisons/{pk}/partitions/",
    "/topology/?cluster=primary",
    "/audit/?by=everybody",
    "/flows/{pk}/charts/?range=30d",
    "/flows/{pk}/explain/?group=app",
    "/api/v1/docs/",
}


@dataclasses.dataclass
class Found:
    """One table: its region's name, its rows, the links to files of the section around it."""

    name: str
    section: int
    rows: int = 0


class Page(HTMLParser):
    """Tables and links to files, by the section that they stand in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[Found] = []
        self.links: dict[int, list[str]] = {}
        self._sections: list[int] = []
        self._region = ""
        self._in_body = False
        self._sections_seen = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = {name: value or "" for name, value in attrs}
        here = self._sections[-1] if self._sections else 0
        if tag == "section":
            self._sections_seen += 1
            self._sections.append(self._sections_seen)
        elif facts.get("role") == "region":
            self._region = facts.get("aria-label", "")
        elif tag == "table":
            self.tables.append(Found(self._region, here))
            self._region = ""
        elif tag == "tbody":
            self._in_body = True
        elif tag == "tr" and self._in_body:
            self.tables[-1].rows += 1
        elif tag == "td" and facts.get("colspan"):
            # "None matches" is no row.
            self.tables[-1].rows -= 1
        elif tag == "a" and "as=" in facts.get("href", ""):
            self.links.setdefault(here, []).append(facts["href"])

    def handle_endtag(self, tag: str) -> None:
        if tag == "section":
            self._sections.pop()
        elif tag == "tbody":
            self._in_body = False


@pytest.fixture
def flow(db: None) -> Flow:
    return full()


def _addresses(flow: Flow) -> list[str]:
    compared = Comparison.objects.get().pk
    paths = [*READING, *MORE]
    return sorted(
        {
            path.format(pk=flow.pk, next=flow.pk + 1, compared=compared)
            for path in paths
            if path not in NOT_ASKED
        }
    )


def test_every_table_has_both_files_and_they_have_at_least_its_rows(
    admin: Client, flow: Flow
) -> None:
    bare, short, names = [], [], set()
    for path in _addresses(flow):
        page = Page(admin.get(path).content.decode())
        for table in page.tables:
            names.add(table.name)
            if any(path.startswith(at) and table.name.startswith(name) for at, name in NO_LISTS):
                continue
            links = page.links.get(table.section, [])
            if len({link.partition("as=")[2][:3] for link in links}) < 2:
                bare.append((path, table.name))
                continue
            rows = _rows_of(admin, path, next(link for link in links if "as=json" in link))
            if rows < table.rows:
                short.append((path, table.name, table.rows, rows))
    assert bare == []
    assert short == []
    # Those that are easily empty, and then nothing was looked at.
    assert {
        "Table of orphans",
        "Table of groups and offsets",
        "Table of what was compared",
        "Table of lanes",
        "Table of log lines",
        "Groups that read the topics furthest behind",
        "Table of history",
        "The next runs",
        "What the test found",
        "What each client changes",
        "Partitions with records that are not on the target",
    } <= names


def _rows_of(client: Client, path: str, link: str) -> int:
    """How many rows the file at a link has; -1 where it is none."""
    answer = client.get(f"{path.split('?')[0]}{link}")
    if not answer.get("Content-Disposition", "").startswith("attachment"):
        return -1
    text = answer.getvalue().decode()
    if "as=jsonl" in link:
        return len(text.splitlines())
    return len(json.loads(text))

"""Every table of every page has the columns of its declaration, and so have its CSV and JSON files.

The files have at least the rows that the page shows.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from mirrors.lists.columns import SPECS
from mirrors.models import Comparison, Flow
from tests.pages import world
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

# Tables that are not lists of the product.
NOT_DECLARED = {"/help/": "a legend", "/certificates/": "a signed document"}


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


class Tables(HTMLParser):
    """Each table of a page: the list that it names, its headings, the cells of its rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[dict[str, Any]] = []
        self._in_head = False
        self._heading: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = {name: value or "" for name, value in attrs}
        if tag == "table":
            self.tables.append({"list": "", "head": None, "rows": [], "links": []})
        elif tag == "thead":
            self._in_head = True
            self.tables[-1] |= {"list": facts.get("data-list", ""), "head": []}
        elif tag == "th" and self._in_head:
            self._heading = ""
        elif tag == "tr" and not self._in_head:
            self.tables[-1]["rows"].append(0)
        elif tag in ("td", "th"):
            self.tables[-1]["rows"][-1] += int(facts.get("colspan") or 1)

    def handle_data(self, data: str) -> None:
        if self._heading is not None:
            self._heading += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "thead":
            self._in_head = False
        elif tag == "th" and self._in_head:
            self.tables[-1]["head"].append((self._heading or "").strip())
            self._heading = None


@pytest.fixture
def flow(admin: Client) -> Flow:
    admin.post("/account/tokens/", {"days": "1"})
    flow = full()
    flow.properties["transforms"] = '[{"topics": "orders", "where": "value is not null"}]'
    flow.save(update_fields=["properties"])
    world.transition(flow, who="ann", field="desired_state")
    return flow


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


def test_every_table_has_its_headings_a_cell_for_each_and_files_with_at_least_its_rows(
    admin: Client, flow: Flow
) -> None:
    bare, short, names = [], [], set()
    shown, wrong = set(), []
    for path in _addresses(flow):
        text = admin.get(path).content.decode()
        of_page = list(_headings(path, text))
        shown |= {name for name, _ in of_page}
        wrong += [(path, name, what) for name, what in of_page if what]
        page = Page(text)
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
    assert wrong == []
    assert {name for name, spec in SPECS.items() if spec.headings} - shown == set()
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


def _headings(path: str, text: str) -> Iterator[tuple[str, str]]:
    """The list that each table with headings names, and what differs from its declaration."""
    if path.startswith(tuple(NOT_DECLARED)):
        return
    for table in Tables(text).tables:
        if table["head"] is None:
            continue
        name = table["list"]
        labels = [column.label for column in SPECS[name].headings] if name else []
        fits = table["head"] == labels and not {*table["rows"]} - {len(labels)}
        yield name, "" if fits else f"{table['head']}, cells {table['rows']}"


def _rows_of(client: Client, path: str, link: str) -> int:
    """How many rows the file at a link has; -1 where it is none."""
    answer = client.get(f"{path.split('?')[0]}{link}")
    if not answer.get("Content-Disposition", "").startswith("attachment"):
        return -1
    text = answer.getvalue().decode()
    if "as=jsonl" in link:
        return len(text.splitlines())
    return len(json.loads(text))


# The file of each list, as an address.
FILES = {
    "flows": "/flows/?",
    "topics": "/flows/{pk}/topics/?",
    "topics behind": "/flows/{pk}/?",
    "partitions": "/flows/{pk}/partitions/?",
    "lanes": "/flows/{pk}/partitions/?of=lanes&",
    "jobs": "/flows/{pk}/jobs/?",
    "log": "/flows/{pk}/jobs/?of=log&",
    "job transitions": "/flows/{pk}/jobs/{pk}/?",
    "settings": "/flows/{pk}/configuration/?",
    "rules on records": "/flows/{pk}/configuration/?of=transforms&",
    "setting changes": "/flows/{pk}/history/?",
    "explanation": "/flows/{pk}/explain/?topic=orders&",
    "group-partitions": "/flows/{pk}/groups/?",
    "consumer groups": "/groups/?",
    "cluster groups": "/clusters/primary/groups/?",
    "gaps": "/flows/{pk}/gaps/?",
    "plan": "/flows/{pk}/plan/?",
    "drift": "/flows/{pk}/drift/?",
    "schema subjects": "/flows/{pk}/schemas/?",
    "schema ids": "/flows/{pk}/schema-ids/?",
    "clusters": "/clusters/?",
    "connection test": "/clusters/primary/?of=test&",
    "runners": "/runners/?",
    "runners of a pool": "/runners/?of=pools&",
    "events of a flow": "/flows/{pk}/events/?",
    "audit": "/audit/?",
    "recent transitions": "/?of=changes&",
    "sync tasks": "/flows/{pk}/duties/?",
    "heartbeats": "/flows/{pk}/heartbeats/?",
    "comparisons": "/comparisons/?",
    "findings": "/comparisons/{compared}/?",
    "aspects": "/comparisons/{compared}/?of=aspects&",
    "compared partitions": "/comparisons/{compared}/partitions/?",
    "conflicting keys": "/flows/{pk}/conflicts/?",
    "conflict reports": "/flows/{pk}/conflicts/?of=reports&",
    "drill runs": "/drills/?",
    "drill runs of a flow": "/flows/{pk}/readiness/?of=drills&",
    "drill schedules": "/drills/schedules/?",
    "readiness": "/flows/{pk}/readiness/?",
    "failovers": "/failovers/?",
    "steps": "/failovers/{pk}/?of=steps&",
    "simulated groups": "/failovers/{pk}/?",
    "preconditions": "/failovers/{pk}/?of=findings&",
    "partitions at risk": "/failovers/{pk}/?of=lossy&",
    "clients": "/failovers/{pk}/?of=clients&",
    "reset groups": "/failovers/{next}/?of=places&",
    "failbacks": "/flows/{pk}/failback/?of=runs&",
    "divergence": "/flows/{pk}/failback/?",
    "orphans": "/failbacks/{pk}/?",
    "orphan records": "/failbacks/{pk}/orphans/{pk}/?",
    "failback groups": "/failbacks/{pk}/?of=groups&",
    "starts": "/failbacks/{pk}/?of=starts&",
    "switchovers": "/failbacks/{pk}/?of=switches&",
    "left behind": "/flows/{pk}/left-behind/?",
    "alerts": "/alerts/?",
    "alerts of a flow": "/flows/{pk}/alerts/?",
    "alert rules": "/alerts/rules/?",
    "alert rules of a flow": "/flows/{pk}/alerts/?of=rules&",
    "channels": "/alerts/rules/?of=channels&",
    "silences": "/alerts/rules/?of=silences&",
    "deliveries": "/alerts/rules/?of=dead&",
    "schedules": "/schedules/?",
    "next runs": "/schedules/?of=coming&",
    "last runs": "/schedules/?of=runs&",
    "topology flows": "/topology/?",
    "topology clusters": "/topology/?of=clusters&",
    "samples": "/flows/{pk}/charts/?",
    "previewed topics": "/add/flow/?preview={pk}&of=topics&",
    "previewed records": "/flows/{pk}/rules/?preview={pk}&of=records&",
    "previewed paths": "/flows/{pk}/rules/?preview={pk}&of=paths&",
    "configs of a topic": "/flows/{pk}/topics/orders/?of=configs&",
    "costs": "/costs/?",
    "costs of topics": "/flows/{pk}/cost/?of=topics&",
    "compression of topics": "/flows/{pk}/cost/?of=samples&",
    "groups of a topic": "/flows/{pk}/topics/orders/?of=groups&",
    "gaps of a topic": "/flows/{pk}/topics/orders/?of=gaps&",
    "manual changes of a topic": "/flows/{pk}/topics/orders/?of=changes&",
    "flows by trouble": "/?",
    "topics furthest behind": "/?of=topics&",
    "groups furthest behind": "/?of=groups&",
    "component health": "/?of=whose&",
    "rpo curve": "/?of=curve&",
    "tokens": "/account/tokens/?",
    "people": "/people/?",
    "grants": "/people/grants/?",
    "rule waivers": "/approvals/?of=waivers&",
    "runs to approve": "/approvals/?",
    "search": "/search/?q=prim&",
}


def test_each_file_has_the_columns_of_its_declaration(admin: Client, flow: Flow) -> None:
    assert set(FILES) == set(SPECS)
    compared = Comparison.objects.get().pk
    for name, path in FILES.items():
        address = path.format(pk=flow.pk, next=flow.pk + 1, compared=compared)
        keys = [column.key for column in SPECS[name].file_columns]
        lines = admin.get(f"{address}as=csv").getvalue().decode().splitlines()
        assert lines[0].split(",") == keys, (name, address)
        if name == "orphan records":
            continue  # JSON lines with the record's bytes
        rows = json.loads(admin.get(f"{address}as=json").getvalue())
        assert all(list(row) == keys for row in rows), name

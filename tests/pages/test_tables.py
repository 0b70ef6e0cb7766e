"""Lists with none to thousands of rows: searched, sorted, paged, exported, with few queries."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mirrors.models import ComparisonPart, FlowPartition, FlowTopic
from mirrors.views.tables import fold
from tests.pages import test_comparisons, world

HOSTILE = [
    "page=-1",
    "page=0",
    "page=99999999999999999999",
    "page=abc",
    "page=1e9",
    "sort=password",
    "sort=--topic",
    "sort=-",
    "sort=source__alias",
    "q=%00",
    "q=%27%3B+DROP+TABLE+mirrors_flow%3B--",
    "q=%25%5F%5C",
    "q=%F0%9F%A6%86%E2%80%AE",
    "q=%C3%28",
    "q=" + "x" * 5000,
    "state=%00",
    "observed_state=nonsense",
    "as=xml",
    "as=",
    "q[]=1&page[]=2",
    "sort=topic&sort=-state",
]
LISTS = ["/flows/", "/clusters/", "/runners/", "/", "/search/"]
PARTS = ["topics/", "partitions/", "jobs/", "events/", "configuration/", ""]


@pytest.mark.parametrize("share", [3, 1])
def test_no_query_string_breaks_a_page(viewer: Client, share: int) -> None:
    """Each page takes a share of the queries, by turns; 1 is all of them."""
    flow = world.busy()
    for at, path in enumerate([*LISTS, *(f"/flows/{flow.pk}/{part}" for part in PARTS)]):
        for query in HOSTILE[at % share :: share]:
            answer = viewer.get(f"{path}?{query}")
            assert answer.status_code == 200, (path, query)


@pytest.mark.parametrize("path", LISTS[:4])
def test_an_empty_list_says_what_to_do_next(admin: Client, path: str) -> None:
    text = admin.get(path).content.decode()
    assert "Add " in text
    assert "</table>" not in text or path == "/"


def test_empty_parts_of_a_flow_say_what_they_wait_for(viewer: Client) -> None:
    flow = world.flow(observed_state="draft", desired_state="stopped", as_of=None)
    texts = [viewer.get(f"/flows/{flow.pk}/{part}").content.decode() for part in PARTS[:4]]
    wanted = ["No topics yet", "No partitions yet", "No job yet", "Nothing has changed yet"]
    assert [word in text for word, text in zip(wanted, texts, strict=True)] == [True] * 4


def _queries(client: Client, path: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as seen:
        assert client.get(path).status_code == 200
    return len(seen)


@pytest.mark.parametrize(
    ("path", "budget"),
    [("/", 22), ("/flows/", 7), ("/clusters/", 7), ("/runners/", 9), ("/search/?q=c", 11)],
)
def test_a_list_takes_the_same_few_queries_for_one_row_and_for_many(
    viewer: Client, path: str, budget: int
) -> None:
    world.topic(world.flow(), offset_lag=5)
    few = _queries(viewer, path)
    for number in range(30):
        flow = world.flow(runner=world.runner(f"r{number}"))
        world.topic(flow, "orders", offset_lag=5)
        world.topic(flow, "payments")
    assert _queries(viewer, path) == few
    assert few <= budget


def test_a_flow_with_thousands_of_rows_takes_few_queries_and_one_page(viewer: Client) -> None:
    flow = world.busy()
    now = timezone.now()
    FlowTopic.objects.bulk_create(
        FlowTopic(
            flow=flow,
            topic=f"t{n:05}",
            remote_topic=f"p.t{n:05}",
            state="in_sync",
            partitions=1,
            offset_lag=0,
            time_lag_ms=0,
            as_of=now,
        )
        for n in range(3000)
    )
    FlowPartition.objects.bulk_create(
        FlowPartition(
            flow=flow,
            topic=f"t{n:05}",
            partition=0,
            remote_topic=f"p.t{n:05}",
            state="in_sync",
            position=n,
            offset_lag=0,
            as_of=now,
        )
        for n in range(3000)
    )
    for part in PARTS:
        with CaptureQueriesContext(connection) as seen:
            text = viewer.get(f"/flows/{flow.pk}/{part}").content.decode()
        assert len(seen) <= 12, part
        assert len(text) < 120_000, part
        if part in {"topics/", "partitions/"}:
            assert "3,00" in text
            last = viewer.get(f"/flows/{flow.pk}/{part}?page=999&sort=topic").content.decode()
            assert "t02999" in last


def test_worst_topics_come_first_and_unknown_ones_last(viewer: Client) -> None:
    flow = world.flow()
    world.topic(flow, "calm")
    world.topic(flow, "unknown", offset_lag=None, time_lag_ms=None)
    world.topic(flow, "behind", offset_lag=9)
    text = viewer.get(f"/flows/{flow.pk}/topics/").content.decode()
    order = [text.index(f">{name}<") for name in ("behind", "calm", "unknown")]
    assert order == sorted(order)
    assert 'aria-sort="descending"' in text


def test_search_filter_and_sort_live_in_the_address(viewer: Client) -> None:
    flow = world.busy()
    text = viewer.get(
        f"/flows/{flow.pk}/topics/?state=skipped&q=INTERNAL&sort=-topic"
    ).content.decode()
    assert "__internal" in text
    assert ">orders<" not in text
    assert 'value="INTERNAL"' in text
    assert "Show all" in text
    assert "state=skipped" in text
    assert "sort=topic" in text


def test_a_total_with_an_unknown_part_is_unknown_not_small(viewer: Client) -> None:
    flow = world.flow()
    world.topic(flow, "known", offset_lag=7)
    world.topic(flow, "dark", offset_lag=None, time_lag_ms=None)
    (row,) = json.loads(b"".join(viewer.get("/flows/?as=json").streaming_content))
    assert row["offset_lag"] is None
    assert (
        "at least 7 records; unknown for 3 partitions of dark"
        in viewer.get("/flows/").content.decode()
    )


def test_old_figures_are_marked_and_their_flow_is_not_green(viewer: Client) -> None:
    flow = world.flow(as_of=timezone.now() - timezone.timedelta(minutes=2))
    world.topic(flow)
    text = viewer.get("/flows/").content.decode()
    assert 'class="number old"' in text
    assert 'data-state="running"' not in text
    assert "no newer report exists" in viewer.get(f"/flows/{flow.pk}/").content.decode()


def test_a_table_downloads_as_csv_and_json_with_the_same_filter(viewer: Client) -> None:
    flow = world.busy()
    answer = viewer.get(f"/flows/{flow.pk}/topics/?as=csv&state=lagging")
    text = b"".join(answer.streaming_content).decode()
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["topic"], row["offset_lag"], row["time_lag_ms"]) == ("orders", "4112", "38000")
    assert answer["Content-Disposition"] == 'attachment; filename="primary-backup-topics.csv"'
    answer = viewer.get(f"/flows/{flow.pk}/partitions/?as=json")
    rows = json.loads(b"".join(answer.streaming_content))
    assert [row["partition"] for row in rows] == [0, 1, 2]


def test_a_cell_from_outside_is_never_a_formula(viewer: Client) -> None:
    flow = world.flow()
    world.topic(flow, "orders", reason="=HYPERLINK(evil)")
    text = b"".join(viewer.get(f"/flows/{flow.pk}/topics/?as=csv").streaming_content).decode()
    assert "'=HYPERLINK(evil)" in text


def test_names_and_broker_words_from_outside_are_escaped_and_made_visible(viewer: Client) -> None:
    evil = "<script>alert(1)</script>\x00\x1b[31m\u202e\"'&"
    flow = world.flow(observed_state="failed", reason=evil)
    world.topic(flow, "<b>bold</b>", reason=evil, state="faulted", offset_lag=3)
    world.partition(flow, "<b>bold</b>", reason=evil)
    world.job(flow, reason=evil, error=evil + "x")
    world.transition(flow, why=evil, who="<i>x</i>")
    paths = ["/", "/flows/", "/search/?q=bold", *(f"/flows/{flow.pk}/{part}" for part in PARTS)]
    for path in paths:
        text = viewer.get(path).content.decode()
        assert "<script>alert" not in text, path
        assert "<b>bold" not in text, path
        assert "\x00" not in text, path
        assert "\x1b" not in text, path
        assert "\u202e" not in text, path
    assert "\\x1b[31m\\u202e" in viewer.get("/flows/").content.decode()


def test_healthy_rows_are_folded_only_beside_others_and_only_if_they_are_some() -> None:
    well = str.islower
    assert fold("aBcde", well) == (["B"], ["a", "c", "d", "e"])
    assert fold("aBcd", well) == (["a", "B", "c", "d"], [])
    assert fold("abcde", well) == (["a", "b", "c", "d", "e"], [])


def test_the_partitions_of_a_comparison_with_the_same_content_are_folded(viewer: Client) -> None:
    run = test_comparisons.finished(world.busy())
    for number in range(2, 8):
        ComparisonPart.objects.create(
            comparison=run, topic="a", remote_topic="primary.a", partition=number, verdict="same"
        )
    text = viewer.get(f"/comparisons/{run.pk}/partitions/").content.decode()
    shown, folded = text.split('<tbody class="folded">')
    assert shown.count(">orders<") == 2
    assert folded.count('title="primary.a"') == 6
    assert "6 with the same content" in folded


@pytest.mark.parametrize("sort", ["", "offset_lag", "-offset_lag"])
def test_topics_that_are_not_replicated_come_after_those_of_the_same_lag(
    viewer: Client, sort: str
) -> None:
    flow = world.busy()
    FlowTopic.objects.filter(flow=flow).delete()
    now = timezone.now()
    for name, state in {"__offsets": "skipped", "billing": "in_sync", "zebra": "in_sync"}.items():
        FlowTopic.objects.create(flow=flow, topic=name, state=state, partitions=1, as_of=now)
    address = f"/flows/{flow.pk}/topics/?as=json&sort={sort}"
    rows = json.loads(viewer.get(address).getvalue())
    assert [row["topic"] for row in rows] == ["billing", "zebra", "__offsets"]

"""The topology page and its answer over REST: the picture, its filters, the same as lists."""

from __future__ import annotations

import itertools
import json
import re
import threading

import pytest
from django.core.cache import cache
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from psycopg.errors import QueryCanceled

from mirrors.models import AccessGrant, Cluster, Flow, GroupOffset, Role
from mirrors.services.users import ensure_person
from monitoring.api import topology
from monitoring.models import LagSample
from monitoring.views.topology import MOST_DRAWN
from tests.pages import world
from tests.pages.conftest import As


def _sample(flow: Flow, **facts: float) -> None:
    LagSample.objects.create(flow=flow, resolution=10, at=timezone.now(), out_of_sync=0, **facts)


@pytest.fixture
def flow(viewer: Client) -> Flow:
    """Far behind, and copying 41 MB a second; a third cluster has no flow."""
    # What the first request of a process loads may take longer than figures stay fresh.
    viewer.get("/topology/")
    flow = world.busy()
    world.cluster("lake")
    _sample(flow, records_per_second=812.0, bytes_per_second=41_000_000.0)
    return flow


def _page(client: Client, query: str = "") -> str:
    answer = client.get(f"/topology/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def _plates(text: str) -> dict[str, bool]:
    """The flows of the picture, and whether each is dim."""
    found = re.findall(r'<a class="plate( dim)?"[^>]*title="([^":]+)', text)
    return {name: bool(dim) for dim, name in found}


def test_the_picture_shows_clusters_and_flows_with_state_rpo_and_rate(
    viewer: Client, flow: Flow
) -> None:
    text = _page(viewer)
    assert set(re.findall(r'data-node="(\w+)"', text)) == {"primary", "backup"}
    lone = text.split("Without a flow")[1].split("</ul>")[0]
    assert re.findall(r'href="/clusters/(\w+)/"', lone) == ["lake"]
    assert _plates(text) == {"primary→backup": False}
    assert re.search(r'data-state="lagging">lagging</span>.*?38 s · 41 MB/s', text)
    assert 'stroke-width="5.7"' in text


def test_the_same_facts_are_in_lists(viewer: Client, flow: Flow) -> None:
    text = _page(viewer).split('id="list-title"')[1]
    row = re.sub(r"<[^>]+>", " ", text.split("<tbody>")[1].split("</tbody>")[0])
    for fact in ("primary→backup", "lagging", "38 s", "4,112", "812", "41 MB"):
        assert fact in row


def test_nodes_carry_brokers_topics_and_groups_as_the_flows_see_them(
    viewer: Client, flow: Flow
) -> None:
    cache.clear()
    Cluster.objects.filter(alias="primary").update(brokers=3)
    for group, target_offset in (("app", 5), ("audit", None)):
        GroupOffset.objects.create(
            flow=flow, group=group, topic="orders", partition=0, target_offset=target_offset,
            sync_state="in_sync", as_of=timezone.now(),
        )  # fmt: skip
    text = _page(viewer)
    nodes = dict(re.findall(r'data-node="(\w+)".*?>(.*?)</a>', text, re.S))
    said = {name: " ".join(re.sub(r"<[^>]+>", " ", node).split()) for name, node in nodes.items()}
    # Two topics on the source, of which one is excluded.
    assert said == {
        "primary": "primary unknown · 3 brokers 2 topics · 2 groups",
        "backup": "backup unreachable 1 topic · 1 group",
    }


def test_while_counting_groups_takes_long_they_are_unknown_and_later_pages_have_them(
    viewer: Client, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.clear()
    counted, told = threading.Event(), [QueryCanceled("canceling statement due to timeout")]

    def count() -> dict[int, int]:
        if told:
            raise OperationalError from told.pop()
        counted.wait(10)
        return {flow.source_id: 4_321}

    monkeypatch.setattr("monitoring.topology._count_groups", count)
    text = _page(viewer)
    assert "2 topics" in text
    assert "group" not in re.sub(
        r"<[^>]+>", "", text.split('data-node="primary"')[1].split("</a>")[0]
    )
    counted.set()
    for thread in threading.enumerate():
        if thread.name == "count-groups":
            thread.join(10)
    assert "4,321 groups" in _page(viewer)


def test_an_rpo_of_at_least_0_is_unknown(viewer: Client, flow: Flow) -> None:
    world.owes(flow, offset_lag=0, time_lag_ms=0)
    assert "lagging" not in _page(viewer)
    world.silence(flow, seconds=60)
    text = _page(viewer)
    assert "≥ 0 s" not in text
    plate, listed = re.findall(r'<span class="figure[^"]*">([^<]*)</span>', text)
    assert plate == listed == "unknown · 41 MB/s"


def test_each_person_reads_the_number_of_groups_that_they_see(viewer: Client, flow: Flow) -> None:
    other = world.flow(flow.source, Cluster.objects.get(alias="lake"))
    for of, group in ((flow, "app"), (other, "audit")):
        GroupOffset.objects.create(
            flow=of, group=group, topic="orders", partition=0, sync_state="in_sync",
            as_of=timezone.now(),
        )  # fmt: skip
    user = ensure_person(username="team", password=None, role=Role.NONE)
    AccessGrant.objects.create(user=user, role="viewer", scope="flow", flow=flow, created_by="ann")
    limited = Client()
    limited.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    for people in ((limited, viewer), (viewer, limited)):
        cache.clear()
        counts = {one: {*re.findall(r"· (\d groups?)", _page(one))} for one in people}
        assert counts == {limited: {"1 group"}, viewer: {"2 groups"}}


def test_a_narrow_screen_has_a_list_by_source_with_the_colors_of_the_picture(
    viewer: Client, flow: Flow
) -> None:
    text = _page(viewer)
    listed = text.split('class="by-source"')[1].split("Without a flow")[0]
    assert re.search(rf'data-color="{flow.pk % 8}".*?→ backup</a>.*?lagging.*?38 s', listed, re.S)
    assert f'data-state="lagging" data-color="{flow.pk % 8}"' in text


def test_a_click_filters_the_list_and_dims_the_rest(viewer: Client, flow: Flow) -> None:
    other = world.flow(world.cluster("east"), world.cluster("west"))
    assert _plates(_page(viewer, "?cluster=east")) == {"primary→backup": True, "east→west": False}
    assert _plates(_page(viewer, f"?flow={flow.pk}"))["east→west"]
    listed = viewer.get(f"/topology/?as=json&flow={other.pk}")
    assert [row["label"] for row in json.loads(listed.getvalue())] == ["east->west"]
    assert _plates(_page(viewer, "?observed_state=paused"))["east→west"]


@pytest.mark.parametrize("query", ["?cluster=nowhere", "?flow=9999", "?flow=%00", "?cluster="])
def test_what_is_not_there_filters_nothing(viewer: Client, flow: Flow, query: str) -> None:
    assert _plates(_page(viewer, query)) == {"primary→backup": False}


def test_a_file_has_the_rates_too(viewer: Client, flow: Flow) -> None:
    lines = viewer.get("/topology/?as=csv").getvalue().decode().splitlines()
    assert lines[0].startswith("label,observed_state,time_lag_ms,offset_lag,records_per_second")
    assert lines[1].startswith("primary->backup,running,38000,4112,812.0,41000000.0")


def test_without_a_cluster_it_says_what_to_do_first(viewer: Client) -> None:
    text = _page(viewer)
    assert '<svg class="picture"' not in text
    assert "Add the source and the target" in text


def test_a_large_world_is_drawn_in_part_and_says_so(viewer: Client) -> None:
    hub = world.cluster("hub")
    for number in range(MOST_DRAWN + 3):
        world.flow(hub, world.cluster(f"spoke{number:03}"))
    world.flow(world.cluster("aside"), world.cluster("beside"))
    text = _page(viewer)
    assert "4 flows not drawn" in re.sub(r"<[^>]+>", "", text)
    assert len(_plates(text)) == MOST_DRAWN
    assert _plates(_page(viewer, "?cluster=beside")) == {"aside→beside": False}


def test_many_flows_take_no_more_queries_than_one(viewer: Client, flow: Flow) -> None:
    def queries(path: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert viewer.get(path).status_code == 200
        return len(seen)

    few = queries("/topology/?cluster=primary")
    for _ in range(20):
        _sample(world.flow(Flow.objects.get(pk=flow.pk).source), records_per_second=1.0)
    assert queries("/topology/?cluster=primary") == few
    assert few <= 11


def test_over_rest_it_says_what_the_page_says(viewer: Client, flow: Flow) -> None:
    world.flow(flow.target, world.cluster("archive"), desired_state="paused")
    world.flow(world.cluster("old"), flow.source, desired_state="stopped")
    document = viewer.get("/api/v1/topology/").json()
    places = {place["alias"]: place for place in document["clusters"]}
    assert places["primary"]["reaches"] == [
        {"alias": "backup", "hops": 1},
        {"alias": "archive", "hops": 2},
    ]
    assert places["old"]["reaches"] == []
    assert places["backup"]["state"] == "unreachable"
    first = document["flows"][0]
    assert first["name"] == "primary->backup"
    assert (first["state"], first["time_lag_ms"]) == ("lagging", 38_000)
    assert first["bytes_per_second"] == 41_000_000.0


def test_over_rest_a_large_world_comes_in_parts(viewer: Client, flow: Flow) -> None:
    """Three clusters and one flow are there; then a chain of six more clusters."""
    chain = [flow.target, *(world.cluster(f"chain{number}") for number in range(6))]
    for start, end in itertools.pairwise(chain):
        world.flow(start, end)
    found: dict[str, list[str]] = {"clusters": [], "flows": []}
    address, parts = "/api/v1/topology/?page_size=4", 0
    while address:
        part = viewer.get(address).json()
        assert (part["cluster_count"], part["flow_count"]) == (9, 7)
        assert max(len(part["clusters"]), len(part["flows"])) <= 4
        found["clusters"] += [place["alias"] for place in part["clusters"]]
        found["flows"] += [way["name"] for way in part["flows"]]
        address, parts = part["next"], parts + 1
    assert parts == 3
    assert sorted(found["clusters"]) == sorted(Cluster.objects.values_list("alias", flat=True))
    assert sorted(found["flows"]) == sorted(one.name for one in Flow.objects.all())
    for query in ("page_size=0", "page_size=many", "page=4&page_size=4", "page=x"):
        refused = viewer.get(f"/api/v1/topology/?{query}")
        assert refused.status_code in {400, 404}, query
        assert refused.json()["error"]["fields"], query


def test_over_rest_the_nearest_that_a_cluster_reaches_are_named(
    viewer: Client, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "MOST_REACHED", 2)
    chain = [flow.target, *(world.cluster(f"chain{number}") for number in range(3))]
    for start, end in itertools.pairwise(chain):
        world.flow(start, end)
    places = {one["alias"]: one for one in viewer.get("/api/v1/topology/").json()["clusters"]}
    assert [one["alias"] for one in places["primary"]["reaches"]] == ["backup", "chain0"]
    assert places["primary"]["reach_count"] == 4
    assert places["lake"]["reach_count"] == 0


def test_over_rest_many_flows_take_no_more_queries_than_one(viewer: Client, flow: Flow) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert viewer.get("/api/v1/topology/").status_code == 200
        return len(seen)

    few = queries()
    for _ in range(20):
        _sample(world.flow(Flow.objects.get(pk=flow.pk).source), records_per_second=1.0)
    assert queries() == few
    assert few <= 8


@pytest.mark.parametrize(("word", "code"), [("nobody", 403), ("viewer", 200), ("operator", 200)])
def test_the_topology_needs_the_role_viewer(
    signed_in: As, flow: Flow, word: str, code: int
) -> None:
    assert signed_in(word).get("/topology/").status_code == code

"""The page of a cluster: its flows, groups, version, permissions, last test, and stale figures."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mirrors.models import Cluster, ClusterTest, Flow, GroupOffset
from mirrors.models.groups import clusters as groups
from mirrors.services.clusters import due_clusters
from mirrors.views.drills.readiness import FLOWS_LISTED
from monitoring.models import ClusterSweep
from tests.pages import world


@pytest.fixture
def primary(db: None) -> Cluster:
    """Copied to backup and to lake; backup copies back; two groups read it."""
    primary, backup = world.cluster("primary"), world.cluster("backup")
    out = world.flow(primary, backup)
    world.flow(primary, world.cluster("lake"))
    world.flow(backup, primary)
    for partition in range(3):
        _group(out, "billing", partition, target_offset=5, sync_state="in_sync")
    _group(out, "audit", 0, sync_state="waiting")
    return primary


def _group(flow: Flow, group: str, partition: int, **facts: object) -> None:
    GroupOffset.objects.create(
        flow=flow,
        group=group,
        topic="orders",
        partition=partition,
        **{"as_of": timezone.now(), **facts},
    )


def _text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def test_flows_out_and_in_stand_apart(viewer: Client, primary: Cluster) -> None:
    text = _text(viewer, "/clusters/primary/")
    out, rest = text.split(" Flows out Export CSV JSON Flow ")[1].split(
        " Flows in Export CSV JSON Flow "
    )
    into = rest.split(" Consumer groups ")[0]
    assert "primary→backup" in out
    assert "primary→lake" in out
    assert "backup→primary" in into
    assert "primary→" not in into.replace("backup→primary", "")


def test_it_tells_version_topics_the_last_test_and_since_when_figures_are_stale(
    viewer: Client, primary: Cluster
) -> None:
    result = {"version": "4.3", "topics": 12, "brokers": [], "rights": [], "warnings": []}
    ended = {"state": "succeeded", "ended_at": timezone.now(), "requested_by": "ana"}
    ClusterTest.objects.create(cluster=primary, result=result, **ended)
    since = timezone.now() - timedelta(minutes=5)
    ClusterSweep.objects.create(cluster=primary, stale_since=since, error="Refused.")
    text = _text(viewer, "/clusters/primary/")
    assert re.search(r"Topics 12 Kafka 4.3 Last test (just now|\d+ s ago)", text)
    assert re.search(r"Figures stale since 5 min( \d+ s)? ago", text)


def test_a_test_shows_the_distance_of_each_broker_and_which_buffer_to_raise(
    viewer: Client, primary: Cluster
) -> None:
    advice = "One connection from primary carries at most about 1.0 MB/s at RTT 100 ms: raise it."
    distance = "RTT 100.2 ms (median 101.0 ms). One connection carries at most about 1.0 MB/s."
    broker = {"id": 1, "host": "b1", "port": 9092, "reachable": True, "distance": distance}
    result = {"brokers": [broker], "advice": [advice]}
    ClusterTest.objects.create(cluster=primary, result=result, state="succeeded")
    text = _text(viewer, "/clusters/primary/")
    assert distance in text
    assert advice in text
    assert "from the worker that ran the test" in text
    file = viewer.get("/clusters/primary/?as=csv&of=test").getvalue().decode()
    assert f"b1:9092 {distance}" in file


def test_a_dead_address_is_a_warning_on_the_page_of_a_cluster_that_answers(
    viewer: Client, primary: Cluster
) -> None:
    reason = "10.0.0.7:9092 refused the connection: nothing listens there."
    addresses = [{"host": "10.0.0.7", "port": 9092, "reachable": False, "reason": reason}]
    result = {"addresses": addresses, "brokers": [{"id": 1, "host": "b1", "port": 9092}]}
    ClusterTest.objects.create(cluster=primary, result=result, state="succeeded")
    Cluster.objects.filter(pk=primary.pk).update(reachable=True, warnings=[reason])
    text = _text(viewer, "/clusters/primary/")
    assert text.index(reason) < text.index("Flows out")
    assert f"address unreachable 10.0.0.7:9092 . {reason}" in re.sub(r" ([.])", r" \1", text)
    lines = viewer.get("/clusters/primary/?of=test&as=csv").getvalue().decode().splitlines()
    assert lines[1].startswith("address 10.0.0.7:9092,unreachable,")


def test_groups_are_counted_on_both_sides_and_have_a_page(viewer: Client, primary: Cluster) -> None:
    text = _text(viewer, "/clusters/primary/groups/")
    assert re.search(r"audit 1 1 1 0 .*billing 1 3 1 3 ", text)
    assert "audit" not in _text(viewer, "/clusters/backup/groups/")
    lines = viewer.get("/clusters/primary/groups/?as=csv&sort=-places").getvalue().decode()
    assert lines.splitlines()[1].startswith("billing,1,3,1,3,")
    assert "No group matches" in _text(viewer, "/clusters/primary/groups/?q=nothing")
    assert "No group is known" in _text(viewer, "/clusters/lake/groups/")
    assert viewer.get("/clusters/mars/groups/").status_code == 404


def test_the_same_groups_are_known_whichever_way_they_are_read(primary: Cluster) -> None:
    out, into = Flow.objects.get(target__alias="backup"), Flow.objects.get(target=primary)
    _group(into, "Zoo", 0, target_offset=1, sync_state="in_sync")
    _group(into, "billing", 0, sync_state="waiting")
    _group(into, "billing", 1, target_offset=7, sync_state="moved")
    _group(into, "not here", 0, sync_state="waiting")
    known = groups.flows_by_group(primary)
    flows = {"audit": {out.pk}, "billing": {out.pk, into.pk}, "Zoo": {into.pk}}
    assert known == flows
    rows = groups.groups_of(primary).order_by("group")
    assert list(known) == [row["group"] for row in rows]
    assert list(groups.groups_named(primary, known, ["billing"])) == [
        row for row in rows if row["group"] == "billing"
    ]
    assert not groups.flows_by_group(Cluster.objects.get(alias="lake"))


def test_groups_over_rest(viewer: Client, primary: Cluster) -> None:
    rows = viewer.get("/api/v1/clusters/primary/groups/?search=bill").json()["results"]
    assert [(row["group"], row["partitions"], row["moved"]) for row in rows] == [("billing", 3, 3)]
    assert viewer.get("/api/v1/clusters/mars/groups/").status_code == 404


@pytest.mark.parametrize("path", ["/clusters/primary/", "/clusters/primary/groups/"])
def test_many_rows_take_no_more_queries(viewer: Client, primary: Cluster, path: str) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert viewer.get(path).status_code == 200
        return len(seen)

    few = queries()
    for number in range(20):
        flow = world.flow(primary)
        _group(flow, f"g{number}", 0, sync_state="moved")
    assert queries() == few
    assert few <= 15


def test_many_groups_are_paged_by_name_both_ways(viewer: Client, primary: Cluster) -> None:
    """Two groups are there; of each the row is the same, whichever column sorts."""
    flow = Flow.objects.filter(source=primary)[0]
    for number in range(60):
        _group(flow, f"Team-{number:02}", 0, target_offset=5, sync_state="moved")

    def rows(query: str) -> list[str]:
        page = viewer.get(f"/clusters/primary/groups/?{query}").content.decode()
        body = re.sub(r"<time.*?</time>", "", page.split("<tbody>")[1].split("</tbody>")[0])
        return [re.sub(r"<[^>]+>|\s+", " ", row).strip() for row in body.split("</tr>")[:-1]]

    up, more = rows(""), rows("page=2")
    assert (len(up), len(more)) == (50, 12)
    assert (rows("sort=-group") + rows("sort=-group&page=2"))[::-1] == up + more
    assert sorted(rows("sort=-places") + rows("sort=-places&page=2")) == sorted(up + more)
    assert len(rows("q=team-1")) == 10


def test_a_cluster_or_runner_with_many_flows_shows_the_first_and_where_the_rest_is(
    viewer: Client, primary: Cluster
) -> None:
    """Two lead out already; three are the runner's."""
    for _ in range(FLOWS_LISTED):
        world.flow(primary, world.cluster())
    page = viewer.get("/clusters/primary/").content.decode()
    assert page.count('class="flow"') == FLOWS_LISTED + 1
    assert '<a href="/topology/?cluster=primary">2 more flows</a>' in page
    text = _text(viewer, "/clusters/primary/")
    assert f"Flows out {FLOWS_LISTED + 2} Flows in 1" in text
    runner = viewer.get("/runners/default/").content.decode()
    assert '<a href="/flows/?q=default">3 more flows</a>' in runner
    assert f"<dt>Flows</dt><dd>{FLOWS_LISTED + 3}</dd>" in runner


def test_a_cluster_is_looked_at_in_its_turn_and_at_once_when_a_flow_of_it_has_changed(
    primary: Cluster,
) -> None:
    now = timezone.now()
    Flow.objects.update(since=now - timedelta(minutes=9), observed_state="running")
    Cluster.objects.update(reachable=True, checked_at=now)
    backup = Cluster.objects.get(alias="backup")
    assert due_clusters() == []
    Cluster.objects.filter(alias="lake").update(checked_at=now - timedelta(seconds=28))
    assert due_clusters() == [Cluster.objects.get(alias="lake").pk]
    Cluster.objects.update(checked_at=now)
    out = Flow.objects.filter(source=primary, target=backup)
    out.update(since=now + timedelta(seconds=1), observed_state="degraded")
    assert due_clusters() == [primary.pk, backup.pk]
    # A password that is refused is not tried at each turn of a flow that fails and fails.
    Cluster.objects.filter(pk=backup.pk).update(reachable=False)
    assert due_clusters() == [primary.pk]
    out.update(observed_state="running")
    assert due_clusters() == [primary.pk, backup.pk]
    Cluster.objects.update(checked_at=now + timedelta(seconds=2))
    assert due_clusters() == []
    Cluster.objects.update(checked_at=None)
    assert len(due_clusters()) == 3

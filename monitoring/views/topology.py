"""Topology: clusters and flows as a picture, and the same as lists."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.models import Cluster, Flow, Role, needs
from mirrors.models.flow_queries import flows_with_lag
from mirrors.models.flows import DesiredState, ObservedState
from mirrors.views.page import curl, filter_of, mark_cluster, mark_flow, render_page
from mirrors.views.tables import Column, Question, Sheet, Table
from monitoring.domain.topology import draw, reaches, thickness
from monitoring.history import samples

# More than this is no picture any more; the list has all, and a cluster's own flows fit again.
MOST_DRAWN = 60
MOST_LISTED = 100
MOST_NAMED = 8
QUESTION = Question(
    columns=(
        Column("label", "Flow", ("source__alias", "target__alias")),
        Column("observed_state", "State", ("observed_state",)),
        Column(
            "time_lag_ms",
            "RPO",
            ("time_lag_ms",),
            number=True,
            title="Age of the oldest record not yet copied: what a failover would lose now",
        ),
        Column("offset_lag", "Behind", ("owed",), number=True, title="Records not yet copied"),
        Column("records_per_second", "Records/s", number=True),
        Column("bytes_per_second", "Bytes/s", number=True),
        Column("as_of", "As of", ("as_of",)),
    ),
    search=("label", "reason"),
    default="label",
    filters={"observed_state": tuple(ObservedState.values)},
)


CLUSTERS = Sheet(
    "nodes",
    ("cluster.alias", "cluster.seen", "cluster.reason", "outward", "inward", "hops"),
)


@dataclasses.dataclass(frozen=True)
class Way:
    """A flow as a line from one cluster to another: what is read of all of them."""

    pk: int
    source: str
    target: str
    desired_state: str
    observed_state: str
    reason: str

    @property
    def edge(self) -> tuple[str, str]:
        return self.source, self.target

    def matches(self, chosen: dict[str, str], state: str, search: str) -> bool:
        """What the list below asks of the database."""
        text = f"{self.source}->{self.target}\n{self.reason}".lower()
        return (
            chosen["cluster"] in {"", *self.edge}
            and chosen["flow"] in {"", str(self.pk)}
            and state in {"", self.observed_state}
            and search.lower() in text
        )


@dataclasses.dataclass(frozen=True)
class World:
    """All clusters and flows."""

    clusters: list[Cluster]
    ways: list[Way]

    @classmethod
    def now(cls) -> World:
        fields = ("pk", "source__alias", "target__alias", "desired_state", "observed_state")
        rows = Flow.objects.order_by("source__alias", "target__alias")
        ways = [Way(*row) for row in rows.values_list(*fields, "reason")]
        return cls([mark_cluster(cluster) for cluster in Cluster.objects.all()], ways)

    def hops(self, clusters: Sequence[Cluster]) -> dict[str, dict[str, int]]:
        """How far the records of these clusters get, over flows that are not stopped."""
        asked = [way.edge for way in self.ways if way.desired_state != DesiredState.STOPPED]
        return reaches(asked, [cluster.alias for cluster in clusters])


def figures_of(now: datetime) -> Callable[[Any], Any]:
    """What gives a flow its state, its rates and the age of its figures."""
    rates = samples.rates_now(now=now)

    def figured(flow: Any) -> Any:
        flow.records_per_second, flow.bytes_per_second = rates.get(flow.pk, (None, None))
        return mark_flow(flow, now)

    return figured


@require_safe
@needs(Role.VIEWER)
def show_topology(request: HttpRequest) -> HttpResponseBase:
    now = timezone.now()
    world = World.now()
    chosen = _chosen(request, world)
    rows = _rows(chosen)
    figured = figures_of(now)
    if file := _file(request, world, rows, figured):
        return file
    table = QUESTION.table(request, rows)
    if any(chosen.values()):
        table = dataclasses.replace(table, filtered=True)
    for flow in table.page:
        figured(flow)
    drawn = _drawn(world, chosen)
    flows = flows_with_lag().filter(pk__in=[way.pk for way in drawn])
    context = {
        "table": table,
        "filters": _filters(world, chosen, table),
        "chosen": chosen,
        "clusters": _nodes(world),
        "undrawn": len(world.ways) - len(drawn),
        "commands": [curl(request, "Read the topology", "GET", "topology/")],
        **_picture(world, drawn, [figured(flow) for flow in flows], chosen, table),
    }
    return render_page(
        request, "monitoring/topology/page.html", context, section="topology", every=3
    )


def _file(
    request: HttpRequest, world: World, rows: QuerySet[Any], figured: Callable[[Any], Any]
) -> HttpResponseBase | None:
    """The flows, or by `?of=` the clusters with all that their records reach."""
    if request.GET.get("of") == "clusters":
        nodes = {"nodes": _places(world, world.clusters)}
        return CLUSTERS.file(request, nodes, "topology-clusters")
    return QUESTION.export(request, rows, "topology", figured)


def _chosen(request: HttpRequest, world: World) -> dict[str, str]:
    """A cluster or a flow, by the address; what is not there counts as not given."""
    known = {
        "cluster": {cluster.alias for cluster in world.clusters},
        "flow": {str(way.pk) for way in world.ways},
    }
    given = {name: request.GET.get(name, "") for name in known}
    return {name: value if value in known[name] else "" for name, value in given.items()}


def _rows(chosen: dict[str, str]) -> QuerySet[Any]:
    rows = flows_with_lag()
    if alias := chosen["cluster"]:
        rows = rows.filter(Q(source__alias=alias) | Q(target__alias=alias))
    if flow := chosen["flow"]:
        rows = rows.filter(pk=flow)
    return rows


def _filters(world: World, chosen: dict[str, str], table: Table) -> list[dict[str, Any]]:
    aliases = [cluster.alias for cluster in world.clusters]
    return [
        {**filter_of("cluster", "Cluster", aliases, chosen), "names": True},
        filter_of("observed_state", "State", ObservedState.values, table.chosen),
    ]


def _nodes(world: World) -> list[dict[str, Any]]:
    """For the page; a file has every cluster and all that its records reach."""
    return [
        {
            **node,
            "reaches": list(node["hops"].items())[:MOST_NAMED],
            "further": max(0, len(node["hops"]) - MOST_NAMED),
        }
        for node in _places(world, world.clusters[:MOST_LISTED])
    ]


def _places(world: World, listed: list[Cluster]) -> list[dict[str, Any]]:
    outward = Counter(way.source for way in world.ways)
    inward = Counter(way.target for way in world.ways)
    hops = world.hops(listed)
    return [
        {
            "cluster": cluster,
            "outward": outward[cluster.alias],
            "inward": inward[cluster.alias],
            "hops": hops.get(cluster.alias, {}),
        }
        for cluster in listed
    ]


def _drawn(world: World, chosen: dict[str, str]) -> list[Way]:
    if len(world.ways) <= MOST_DRAWN:
        return world.ways
    near = [way for way in world.ways if way.matches({**chosen, "flow": ""}, "", "")]
    return near[:MOST_DRAWN]


def _picture(
    world: World, drawn: list[Way], flows: list[Any], chosen: dict[str, str], table: Table
) -> dict[str, Any]:
    """The picture; while a filter is on, what it leaves out is dim."""
    whole = len(drawn) == len(world.ways)
    names = {cluster.alias for cluster in world.clusters} if whole else {chosen["cluster"]} - {""}
    drawing = draw(names, [way.edge for way in drawn])
    by_pk = {flow.pk: flow for flow in flows}
    by_edge = {way.edge: way for way in drawn}
    state = table.chosen.get("observed_state", "")
    bright, lines = {chosen["cluster"]}, []
    for line in drawing.lines:
        way = by_edge[line.source, line.target]
        is_lit = way.matches(chosen, state, table.search)
        bright |= set(way.edge) if is_lit else set()
        if flow := by_pk.get(way.pk):
            link = "?" if chosen["flow"] == str(way.pk) else f"?flow={way.pk}"
            width = thickness(flow.bytes_per_second)
            facts = {"line": line, "flow": flow, "dim": not is_lit, "width": width, "link": link}
            lines.append(facts)
    clusters = {cluster.alias: cluster for cluster in world.clusters}
    nodes = [
        {
            "box": box,
            "cluster": clusters[box.name],
            "dim": table.filtered and box.name not in bright,
            "is_chosen": box.name == chosen["cluster"],
        }
        for box in drawing.boxes
    ]
    return {"drawing": drawing, "lines": lines, "nodes": nodes}

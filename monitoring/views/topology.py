"""Topology: clusters and flows as a picture, and the same as lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.models import Cluster, Role, needs
from mirrors.models.flows import DesiredState, ObservedState
from mirrors.models.reading import flows_with_lag
from mirrors.views.render import render_page
from mirrors.views.shared import curl, filter_of, mark_cluster, mark_flow
from mirrors.views.tables import Column, Question, Table
from monitoring import history
from monitoring.domain.topology import Drawing, draw, reaches, thickness

# More than this is no picture any more; the list has all, and a cluster's own flows fit again.
MOST_DRAWN = 120
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
        Column(
            "offset_lag", "Behind", ("offset_lag",), number=True, title="Records not yet copied"
        ),
        Column("records_per_second", "Records/s", number=True),
        Column("bytes_per_second", "Bytes/s", number=True),
        Column("as_of", "As of", ("as_of",)),
    ),
    search=("label", "reason"),
    default="label",
    filters={"observed_state": tuple(ObservedState.values)},
)


@dataclasses.dataclass(frozen=True)
class World:
    """All clusters and flows with the figures of now."""

    clusters: list[Cluster]
    flows: list[Any]
    hops: dict[str, dict[str, int]]

    @classmethod
    def now(cls, now: datetime) -> World:
        flows = with_rates(list(flows_with_lag()), now)
        asked = [flow for flow in flows if flow.desired_state != DesiredState.STOPPED]
        clusters = [mark_cluster(cluster) for cluster in Cluster.objects.all()]
        return cls(clusters, flows, reaches(edge_of(flow) for flow in asked))


def with_rates(flows: Sequence[Any], now: datetime) -> list[Any]:
    rates = history.rates_now(now=now)
    for flow in flows:
        mark_flow(flow, now)
        records, size = rates.get(flow.pk, (None, None))
        flow.records_per_second, flow.bytes_per_second = records, size
    return list(flows)


def edge_of(flow: Any) -> tuple[str, str]:
    return flow.source.alias, flow.target.alias


@require_safe
@needs(Role.VIEWER)
def show_topology(request: HttpRequest) -> HttpResponseBase:
    now = timezone.now()
    world = World.now(now)
    chosen = _chosen(request, world)
    rows = _rows(chosen)
    facts = {flow.pk: flow for flow in world.flows}
    if download := QUESTION.export(request, rows, "topology", lambda row: facts.get(row.pk, row)):
        return download
    table = QUESTION.table(request, rows)
    if any(chosen.values()):
        table = dataclasses.replace(table, filtered=True)
    table.page.object_list = [facts.get(row.pk, row) for row in table.page]
    context = {
        "table": table,
        "filters": _filters(world, chosen, table),
        "chosen": chosen,
        "clusters": [_node(cluster, world) for cluster in world.clusters],
        "commands": [curl(request, "Read the topology", "GET", "topology/")],
        **_picture(world, chosen, table),
    }
    return render_page(request, "monitoring/topology.html", context, section="topology", every=3)


def _chosen(request: HttpRequest, world: World) -> dict[str, str]:
    """A cluster or a flow, by the address; what is not there counts as not given."""
    known = {
        "cluster": {cluster.alias for cluster in world.clusters},
        "flow": {str(flow.pk) for flow in world.flows},
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


def _node(cluster: Cluster, world: World) -> dict[str, Any]:
    alias = cluster.alias
    return {
        "cluster": cluster,
        "outward": sum(edge_of(flow)[0] == alias for flow in world.flows),
        "inward": sum(edge_of(flow)[1] == alias for flow in world.flows),
        "reaches": world.hops.get(alias, {}),
    }


def _picture(world: World, chosen: dict[str, str], table: Table) -> dict[str, Any]:
    """The picture; while a filter is on, what it leaves out is dim."""
    flows, names = world.flows, {cluster.alias for cluster in world.clusters}
    if len(flows) > MOST_DRAWN:
        flows = [flow for flow in flows if not chosen["cluster"] or _touches(flow, chosen)]
        flows = flows[:MOST_DRAWN]
        names = {chosen["cluster"]} - {""}
    drawing = draw(names, [edge_of(flow) for flow in flows])
    lit: Collection[int] | None = None
    if table.filtered:
        found: Any = table.page.paginator.object_list
        lit = set(found.values_list("pk", flat=True))
    return {
        "drawing": drawing,
        "undrawn": len(world.flows) - len(flows),
        **_shapes(drawing, world, chosen, lit),
    }


def _touches(flow: Any, chosen: dict[str, str]) -> bool:
    return chosen["cluster"] in edge_of(flow)


def _shapes(
    drawing: Drawing, world: World, chosen: dict[str, str], lit: Collection[int] | None
) -> dict[str, Any]:
    flows = {edge_of(flow): flow for flow in world.flows}
    clusters = {cluster.alias: cluster for cluster in world.clusters}
    lines, bright = [], {chosen["cluster"]}
    for line in drawing.lines:
        flow = flows[line.source, line.target]
        dim = lit is not None and flow.pk not in lit
        bright |= set() if dim else set(edge_of(flow))
        lines.append(
            {
                "line": line,
                "flow": flow,
                "dim": dim,
                "width": thickness(flow.bytes_per_second),
                "link": "?" if chosen["flow"] == str(flow.pk) else f"?flow={flow.pk}",
            }
        )
    nodes = [
        {
            "box": box,
            "cluster": clusters[box.name],
            "dim": lit is not None and box.name not in bright,
            "is_chosen": box.name == chosen["cluster"],
        }
        for box in drawing.boxes
    ]
    return {"lines": lines, "nodes": nodes}

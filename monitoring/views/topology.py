"""The page of the topology: clusters and flows as a drawing and as lists."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.states.flows import OBSERVED
from mirrors.models import Cluster, needs
from mirrors.models.flow_queries import flows_with_lag
from mirrors.views.page import curl, filter_of, render_page
from mirrors.views.tables import Table, export, table_of, whole_file
from monitoring.domain.topology import draw, thickness
from monitoring.lists import TOPOLOGY_CLUSTERS, TOPOLOGY_FLOWS
from monitoring.topology import FlowEdge, Topology, figures_setter

# With more flows, the drawing shows only those of the selected cluster; the list has all.
MOST_DRAWN = 60
MOST_LISTED = 100
MOST_NAMED = 8


@require_safe
@needs(Right.VIEW)
def show_topology(request: HttpRequest) -> HttpResponseBase:
    now = timezone.now()
    topology = Topology.now()
    chosen = _chosen(request, topology)
    rows = _rows(chosen)
    set_figures = figures_setter(now)
    if file := _file(request, topology, rows, set_figures):
        return file
    table = table_of(request, TOPOLOGY_FLOWS, rows)
    if any(chosen.values()):
        table = dataclasses.replace(table, filtered=True)
    for flow in table.page:
        set_figures(flow)
    drawn = _drawn(topology, chosen)
    flows = flows_with_lag().filter(pk__in=[edge.pk for edge in drawn])
    context = {
        "table": table,
        "filters": _filters(topology, chosen, table),
        "chosen": chosen,
        "clusters": _nodes(topology),
        "undrawn": len(topology.flows) - len(drawn),
        "commands": [curl(request, "Read the topology", "GET", "topology/")],
        **_picture(topology, drawn, [set_figures(flow) for flow in flows], chosen, table),
    }
    return render_page(
        request, "monitoring/topology/page.html", context, section="topology", every=3
    )


def _file(
    request: HttpRequest, topology: Topology, rows: QuerySet[Any], set_figures: Callable[[Any], Any]
) -> HttpResponseBase | None:
    """The flows as a file; with `?of=clusters`, the clusters and what they reach."""
    if request.GET.get("of") == "clusters":
        nodes = {"nodes": _cluster_rows(topology, topology.clusters)}
        return whole_file(request, nodes, TOPOLOGY_CLUSTERS, "topology-clusters")
    return export(request, TOPOLOGY_FLOWS, rows, "topology", set_figures)


def _chosen(request: HttpRequest, topology: Topology) -> dict[str, str]:
    """The cluster or flow selected in the URL; an unknown one is ignored."""
    known = {
        "cluster": {cluster.alias for cluster in topology.clusters},
        "flow": {str(edge.pk) for edge in topology.flows},
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


def _filters(topology: Topology, chosen: dict[str, str], table: Table) -> list[dict[str, Any]]:
    aliases = [cluster.alias for cluster in topology.clusters]
    return [
        {**filter_of("cluster", "Cluster", aliases, chosen), "names": True},
        filter_of("observed_state", "State", OBSERVED.names, table.chosen),
    ]


def _nodes(topology: Topology) -> list[dict[str, Any]]:
    """For the page, which is limited; a file has every cluster and all that its records reach."""
    return [
        {
            **node,
            "reaches": list(node["hops"].items())[:MOST_NAMED],
            "further": max(0, len(node["hops"]) - MOST_NAMED),
        }
        for node in _cluster_rows(topology, topology.clusters[:MOST_LISTED])
    ]


def _cluster_rows(topology: Topology, listed: list[Cluster]) -> list[dict[str, Any]]:
    outward = Counter(edge.source for edge in topology.flows)
    inward = Counter(edge.target for edge in topology.flows)
    hops = topology.hops(listed)
    return [
        {
            "cluster": cluster,
            "outward": outward[cluster.alias],
            "inward": inward[cluster.alias],
            "hops": hops.get(cluster.alias, {}),
        }
        for cluster in listed
    ]


def _drawn(topology: Topology, chosen: dict[str, str]) -> list[FlowEdge]:
    if len(topology.flows) <= MOST_DRAWN:
        return topology.flows
    near = [edge for edge in topology.flows if edge.matches({**chosen, "flow": ""}, "", "")]
    return near[:MOST_DRAWN]


def _picture(
    topology: Topology,
    drawn: list[FlowEdge],
    flows: list[Any],
    chosen: dict[str, str],
    table: Table,
) -> dict[str, Any]:
    """The drawing; flows and clusters outside the filter are dimmed."""
    drawing = draw((), [edge.ends for edge in drawn], topology.sources)
    by_pk = {flow.pk: flow for flow in flows}
    by_ends = {edge.ends: edge for edge in drawn}
    state = table.chosen.get("observed_state", "")
    bright, lines = {chosen["cluster"]}, []
    for line in drawing.lines:
        edge = by_ends[line.source, line.target]
        is_lit = edge.matches(chosen, state, table.search)
        bright |= set(edge.ends) if is_lit else set()
        if flow := by_pk.get(edge.pk):
            link = "?" if chosen["flow"] == str(edge.pk) else f"?flow={edge.pk}"
            width = thickness(flow.bytes_per_second)
            facts = {"line": line, "flow": flow, "dim": not is_lit, "width": width, "link": link}
            lines.append(facts)
    clusters = {cluster.alias: cluster for cluster in topology.clusters}
    content = topology.content()
    nodes = [
        {
            "box": box,
            "cluster": clusters[box.name],
            "content": content[box.name],
            "dim": table.filtered and box.name not in bright,
            "is_chosen": box.name == chosen["cluster"],
        }
        for box in drawing.boxes
    ]
    ends = {end for edge in topology.flows for end in edge.ends}
    lone = [cluster for cluster in topology.clusters if cluster.alias not in ends]
    return {
        "drawing": drawing,
        "lines": lines,
        "nodes": nodes,
        "by_source": _by_source(nodes, lines),
        "lone": lone[:MOST_LISTED],
        "more_lone": max(0, len(lone) - MOST_LISTED),
    }


def _by_source(
    nodes: list[dict[str, Any]], lines: list[dict[str, Any]]
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The drawing as a list for a narrow screen: each source with its flows."""
    return [
        (node, own)
        for node in nodes
        if (own := [line for line in lines if line["line"].source == node["box"].name])
    ]

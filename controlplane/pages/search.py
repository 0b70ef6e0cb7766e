"""Search by names of flows, clusters, runners, topics and groups; the help page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from mirrors.domain.formatting import arrow
from mirrors.lists.columns import Column, ListSpec, in_files
from mirrors.models import Cluster, Flow, FlowTopic, GroupOffset, Role, Runner, needs
from mirrors.models.flow_queries import flows_with_lag
from mirrors.views.page import mark_cluster, render_page
from mirrors.views.tables import clean, whole_file

LIMIT = 25
# The command palette requests this as JSON.
FOUND = ListSpec(
    "search",
    rows="found",
    columns=(
        Column("name", "Name"),
        Column("kind", "What it is"),
        Column("state", "State"),
        Column("where", "Where"),
        *in_files("link"),
    ),
)


@dataclasses.dataclass(frozen=True)
class Hit:
    name: str
    kind: str
    state: str
    where: str
    link: str


@require_safe
@needs(Role.VIEWER)
def search(request: HttpRequest) -> HttpResponseBase:
    q = clean(request.GET.get("q", "")).replace("→", "->")
    found = [*_flows(q), *_clusters(q), *_runners(q), *_topics(q), *_groups(q)] if q else []
    kinds = [hit.kind for hit in found]
    cut = LIMIT if any(kinds.count(kind) == LIMIT for kind in set(kinds)) else 0
    context = {"q": q, "found": found, "cut": cut}
    if file := whole_file(request, context, FOUND, "search"):
        return file
    return render_page(request, "controlplane/search.html", context, section="search")


def _flows(q: str) -> Iterator[Hit]:
    for flow in flows_with_lag().filter(label__icontains=q).order_by("label")[:LIMIT]:
        link = reverse("flow", args=[flow.pk])
        yield Hit(arrow(flow.name), "flow", flow.observed_state, flow.runner.name, link)


def _clusters(q: str) -> Iterator[Hit]:
    named = Q(alias__icontains=q) | Q(bootstrap_servers__icontains=q) | Q(cluster_id__icontains=q)
    for cluster in Cluster.objects.filter(named)[:LIMIT]:
        state = mark_cluster(cluster).seen  # type: ignore[attr-defined]
        link = reverse("cluster", args=[cluster.alias])
        yield Hit(cluster.alias, "cluster", state, cluster.bootstrap_servers, link)


def _runners(q: str) -> Iterator[Hit]:
    for runner in Runner.objects.filter(name__icontains=q)[:LIMIT]:
        yield Hit(
            runner.name,
            "runner",
            runner.health_now.state,
            runner.master,
            reverse("runner", args=[runner.name]),
        )


def _topics(q: str) -> Iterator[Hit]:
    rows = FlowTopic.objects.filter(Q(topic__icontains=q) | Q(remote_topic__icontains=q))
    for row in rows.select_related("flow__source", "flow__target").order_by("topic")[:LIMIT]:
        link = f"{reverse('flow', args=[row.flow_id])}?{urlencode({'q': row.topic})}"
        yield Hit(row.topic, "topic", row.state, arrow(row.flow.name), link)


def _groups(q: str) -> Iterator[Hit]:
    """Without ORDER BY: sorting all matches takes longer than finding the first ones."""
    rows = GroupOffset.objects.filter(group__icontains=q).order_by()
    pairs = list(rows.values_list("flow", "group").distinct()[:LIMIT])
    flows = Flow.objects.select_related("source", "target").in_bulk({flow for flow, _ in pairs})
    for flow, group in sorted(pairs, key=lambda pair: (pair[1], pair[0])):
        link = f"{reverse('flow-part', args=[flow, 'groups'])}?{urlencode({'q': group})}"
        yield Hit(group, "group", "", arrow(flows[flow].name), link)


@require_safe
@needs(Role.VIEWER)
def show_help(request: HttpRequest) -> HttpResponse:
    return render_page(request, "controlplane/help.html", {}, section="help")

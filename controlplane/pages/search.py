"""Search by names of flows, clusters, runners, topics and groups; the help page."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from django.db.models import Case, IntegerField, Min, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.formatting import arrow
from mirrors.lists.columns import Column, ListSpec, in_files
from mirrors.models import Cluster, Flow, FlowTopic, GroupSummary, Runner, needs
from mirrors.models.flow_queries import flows_with_lag
from mirrors.views.page import mark_cluster, render_page
from mirrors.views.tables import clean, whole_file

LIMIT = 25
_EXPLAINED = 10
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


# A word of a name begins after one of these.
_BREAKS = ".-_:/> "


@dataclasses.dataclass(frozen=True)
class Hit:
    name: str
    kind: str
    state: str
    where: str
    link: str


@require_safe
@needs(Right.VIEW)
def search(request: HttpRequest) -> HttpResponseBase:
    """Best matches first: the exact name, names that begin with it, words that begin with it."""
    q = clean(request.GET.get("q", "")).replace("→", "->")
    found = [*_flows(q), *_clusters(q), *_runners(q), *_topics(q), *_groups(q)] if q else []
    kinds = [hit.kind for hit in found]
    cut = LIMIT if any(kinds.count(kind) == LIMIT for kind in set(kinds)) else 0
    # A stable sort: equal ranks keep the order of kinds.
    found.sort(key=lambda hit: rank(hit.name, q))
    context = {"q": q, "found": found, "cut": cut, "explained": [] if found else _explained(q)}
    if file := whole_file(request, context, FOUND, "search"):
        return file
    return render_page(request, "controlplane/search.html", context, section="search")


def _explained(q: str) -> list[dict[str, str]]:
    """Flows that say why they do not replicate a topic of this name; the first ones by name."""
    flows = Flow.objects.select_related("source", "target")
    query = urlencode({"topic": q})
    return [
        {"name": arrow(flow.name), "link": f"{reverse('flow-explain', args=[flow.pk])}?{query}"}
        for flow in flows.order_by("source__alias", "target__alias")[: _EXPLAINED if q else 0]
    ]


def rank(name: str, q: str) -> int:
    """How well a name matches: 0 exact, 1 begins with it, 2 a word begins with it, 3 the rest."""
    name, q = name.replace("→", "->").lower(), q.lower()
    if name == q:
        return 0
    if name.startswith(q):
        return 1
    return 2 if re.search(f"[{re.escape(_BREAKS)}]{re.escape(q)}", name) else 3


def _best(rows: QuerySet[Any], field: str, q: str) -> QuerySet[Any]:
    """The same order in the database, so that the limit cuts the weakest matches."""
    words = Q()
    for sign in _BREAKS:
        words |= Q(**{f"{field}__icontains": sign + q})
    order = Case(
        When(**{f"{field}__iexact": q}, then=Value(0)),
        When(**{f"{field}__istartswith": q}, then=Value(1)),
        When(words, then=Value(2)),
        default=Value(3),
        output_field=IntegerField(),
    )
    return rows.annotate(match=order).order_by("match", field)


def _flows(q: str) -> Iterator[Hit]:
    for flow in _best(flows_with_lag().filter(label__icontains=q), "label", q)[:LIMIT]:
        link = reverse("flow", args=[flow.pk])
        yield Hit(arrow(flow.name), "flow", flow.observed_state, flow.runner.name, link)


def _clusters(q: str) -> Iterator[Hit]:
    named = Q(alias__icontains=q) | Q(bootstrap_servers__icontains=q) | Q(cluster_id__icontains=q)
    for cluster in _best(Cluster.objects.filter(named), "alias", q)[:LIMIT]:
        state = mark_cluster(cluster).seen  # type: ignore[attr-defined]
        link = reverse("cluster", args=[cluster.alias])
        yield Hit(cluster.alias, "cluster", state, cluster.bootstrap_servers, link)


def _runners(q: str) -> Iterator[Hit]:
    for runner in _best(Runner.objects.filter(name__icontains=q), "name", q)[:LIMIT]:
        yield Hit(
            runner.name,
            "runner",
            runner.health_now.state,
            runner.master,
            reverse("runner", args=[runner.name]),
        )


def _topics(q: str) -> Iterator[Hit]:
    """One row per topic. Its link leads to the first of its flows; `where` counts the others."""
    rows = FlowTopic.objects.filter(Q(topic__icontains=q) | Q(remote_topic__icontains=q))
    named = rows.order_by().values("topic").annotate(first=Min("pk"))
    names = {row["topic"]: row["first"] for row in _best(named, "topic", q)[:LIMIT]}
    fields = ("pk", "topic", "state", "flow", "flow__source__alias", "flow__target__alias")
    flows: dict[str, set[int]] = {}
    firsts: dict[str, tuple[str, int, str]] = {}
    for pk, topic, state, flow, source, target in (
        rows.filter(topic__in=names).order_by().values_list(*fields)
    ):
        flows.setdefault(topic, set()).add(flow)
        if pk == names[topic]:
            firsts[topic] = state, flow, f"{source}->{target}"
    for topic, (state, flow, name) in ((topic, firsts[topic]) for topic in names):
        more = len(flows[topic]) - 1
        where = arrow(name) + (f" and {more} more" if more else "")
        yield Hit(topic, "topic", state, where, reverse("flow-topic", args=[flow, topic]))


def _groups(q: str) -> Iterator[Hit]:
    """With more matches than the limit: exact names, then beginnings, then the rest.

    Each without ORDER BY: sorting all matches takes longer than finding the first ones.
    """
    chosen = _some_groups("icontains", q)
    if len(chosen) == LIMIT:
        best = [*_some_groups("exact", q), *_some_groups("istartswith", q)]
        chosen = list(dict.fromkeys([*best, *chosen]))[:LIMIT]
    for group, flow, source, target in chosen:
        link = f"{reverse('flow-part', args=[flow, 'groups'])}?{urlencode({'q': group})}"
        yield Hit(group, "group", "", arrow(f"{source}->{target}"), link)


def _some_groups(how: str, q: str) -> list[tuple[str, int, str, str]]:
    """Group, flow and the aliases of its clusters."""
    rows = GroupSummary.objects.filter(**{f"group__{how}": q}).order_by()
    found = rows.values_list("group", "flow", "flow__source__alias", "flow__target__alias")
    return sorted(found[:LIMIT])


@require_safe
@needs(Right.VIEW)
def show_help(request: HttpRequest) -> HttpResponse:
    return render_page(request, "controlplane/help.html", {}, section="help")

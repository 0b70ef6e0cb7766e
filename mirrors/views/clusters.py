"""Pages of clusters: the list, one cluster with its connection test, the form."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from mirrors import tasks
from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.forms.clusters import ClusterForm
from mirrors.lists.audit import RECENT_TRANSITIONS
from mirrors.lists.clusters import CLUSTERS, CONNECTION_TEST
from mirrors.lists.groups import CLUSTER_GROUPS
from mirrors.models import Cluster, ClusterTest, Flow, Transition, needs
from mirrors.models.clusters import SecurityProtocol
from mirrors.models.drills.readiness import with_proof
from mirrors.models.flow_queries import flows_with_lag
from mirrors.models.groups.clusters import flows_by_group, groups_named, groups_of
from mirrors.services import clusters as services
from mirrors.views.drills.readiness import first_flows
from mirrors.views.edit_impact import Impact, changes_between
from mirrors.views.flows.pages import file_of_flows
from mirrors.views.page import attempt, curl, filter_of, mark_cluster, render_page
from mirrors.views.tables import export, file_of, table_of

LISTS = {
    "groups": CLUSTER_GROUPS,
    "test": CONNECTION_TEST,
    "changes": RECENT_TRANSITIONS,
}


def files_of(cluster: Cluster, test: ClusterTest | None) -> dict[str, Any]:
    """Rows that only downloads have: all groups, and a connection test's results as one table."""
    found = test.result if test else {}
    addresses = [
        {
            "asked": f"address {one['host']}:{one['port']}",
            "answer": _word(one.get("reachable"), "reachable", "unreachable"),
            "words": one.get("reason") or "",
        }
        for one in found.get("addresses", [])
    ]
    brokers = [
        {
            "asked": f"broker {one['id']}",
            "answer": _word(one.get("reachable"), "reachable", "unreachable"),
            "words": " ".join(
                [f"{one.get('host')}:{one.get('port')}"]
                + [words for key in ("reason", "distance") if (words := one.get(key))]
            ),
        }
        for one in found.get("brokers", [])
    ]
    rights = [
        {
            "asked": one["name"],
            "answer": _word(one.get("allowed"), "allowed", "missing"),
            "words": one.get("words", ""),
        }
        for one in found.get("rights", [])
    ]
    registries = [
        {
            "asked": "schema registry",
            "answer": _word(one["reachable"], "reachable", "unreachable"),
            "words": f"{one['url']}. {one['words']}",
        }
        for one in [found.get("registry")]
        if one
    ]
    asked = addresses + brokers + rights + registries
    return {"groups": groups_of(cluster).order_by("group"), "test": asked}


def _word(known: bool | None, yes: str, no: str) -> str:
    return "unknown" if known is None else yes if known else no


# How many groups a cluster's page shows.
GROUPS = 10


def _rows() -> QuerySet[Cluster]:
    return Cluster.objects.annotate(
        out_count=Count("flows_out", distinct=True), in_count=Count("flows_in", distinct=True)
    )


@require_safe
@needs(Right.VIEW)
def list_clusters(request: HttpRequest) -> HttpResponseBase:
    if download := export(request, CLUSTERS, _rows(), "clusters", mark_cluster):
        return download
    table = table_of(request, CLUSTERS, _rows())
    for cluster in table.page:
        mark_cluster(cluster)
    protocols = filter_of("security_protocol", "Security", SecurityProtocol.values, table.chosen)
    context = {"table": table, "filters": [protocols]}
    return render_page(request, "mirrors/clusters/list.html", context, section="clusters", every=5)


@require_safe
@needs(Right.VIEW)
def show_cluster(request: HttpRequest, alias: str) -> HttpResponseBase:
    cluster = mark_cluster(get_object_or_404(Cluster, alias=alias))
    rows = with_proof(flows_with_lag()).filter(Q(source=cluster) | Q(target=cluster))
    if download := file_of_flows(request, rows, f"{alias}-flows"):
        return download
    test = cluster.tests.first()
    sides = _sides(cluster, timezone.now())
    groups = flows_by_group(cluster)
    context: dict[str, Any] = {
        "cluster": cluster,
        "test": test,
        "found": test.result if test else {},
        "flow_count": sum(side["total"] for side in sides),
        "sides": sides,
        "groups": groups_named(cluster, groups, list(groups)[:GROUPS]),
        "group_count": len(groups),
        "transitions": Transition.objects.filter(subject="cluster", subject_id=cluster.pk)[:6],
        "commands": [
            curl(request, "Read this cluster", "GET", f"clusters/{alias}/"),
            curl(request, "Test the connection", "POST", f"clusters/{alias}/test/"),
        ],
    }
    if file := file_of(request, context | files_of(cluster, test), LISTS, alias):
        return file
    every = 1 if test is not None and test.ended_at is None else 4
    return render_page(
        request, "mirrors/clusters/detail.html", context, section="clusters", every=every
    )


def _sides(cluster: Cluster, now: datetime) -> list[dict[str, Any]]:
    """The flows from and to the cluster: their number, and the first as rows."""
    out = {"word": "source", "title": "Flows out", "verb": "reads from", "way": "from"}
    into = {"word": "target", "title": "Flows in", "verb": "writes to", "way": "to"}
    return [
        {**side, **first_flows(Flow.objects.filter(**{side["word"]: cluster}), now)}
        for side in (out, into)
    ]


@require_POST
@needs(Right.OPERATE)
def test_cluster(request: HttpRequest, alias: str) -> HttpResponse:
    cluster = get_object_or_404(Cluster, alias=alias)
    _request_test(request, cluster)
    return redirect("cluster", alias=alias)


def _request_test(request: HttpRequest, cluster: Cluster) -> None:
    attempt(
        request, lambda: services.request_test(cluster=cluster, who=request.user.get_username())
    )


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def add_cluster(request: HttpRequest) -> HttpResponse:
    form = ClusterForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            cluster = services.create_cluster(
                spec=ClusterSpec(**form.values()), who=request.user.get_username()
            )
        except InvalidSettings as error:
            form.refuse(error)
        except UnderstudyError as error:
            form.add_error("alias", error.message)
        else:
            _request_test(request, cluster)
            return redirect("cluster", alias=cluster.alias)
    return _form_page(request, form, None)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def edit_cluster(request: HttpRequest, alias: str) -> HttpResponse:
    """The first POST shows what the edit restarts; the second one, with its digest, saves it."""
    cluster = get_object_or_404(Cluster, alias=alias)
    form = ClusterForm(request.POST or None, cluster=cluster)
    impact: Impact | None = None
    if request.method == "POST" and form.is_valid():
        spec = ClusterSpec(**form.values())
        try:
            impact = _impact(cluster, spec)
            if not impact.changes:
                messages.info(request, f"{alias} was not changed.")
                return redirect("cluster", alias=alias)
            if impact.agreed(request):
                _save(request, cluster, spec)
                return redirect("cluster", alias=alias)
        except InvalidSettings as error:
            form.refuse(error)
        except UnderstudyError as error:
            form.add_error(None, error.message)
    return _form_page(request, form, cluster, None if form.errors else impact)


def _save(request: HttpRequest, cluster: Cluster, spec: ClusterSpec) -> None:
    """Save the edit and test the connection again: the old result belongs to the old settings."""
    services.update_cluster(cluster=cluster, spec=spec, who=request.user.get_username())
    for flow in cluster.flows_out.all() | cluster.flows_in.all():
        tasks.reconcile_flow.delay_on_commit(flow.pk)
    tasks.check_cluster.delay_on_commit(cluster.pk)
    messages.success(request, f"{cluster.alias} is saved.")
    _request_test(request, cluster)


def _impact(cluster: Cluster, spec: ClusterSpec) -> Impact:
    before, after = dataclasses.asdict(cluster.spec), dataclasses.asdict(spec)
    flat: list[dict[str, str]] = []
    for facts in (before, after):
        properties = facts.pop("properties")
        named = {services.CONFIG_KEYS.get(key, key): value for key, value in facts.items()}
        flat.append({key: str(value) for key, value in {**named, **properties}.items()})
    restarts = services.restarts_of_update(cluster=cluster, spec=spec)
    return Impact.of(changes_between(*flat), restarts, calm="No running flow uses this cluster.")


def _form_page(
    request: HttpRequest, form: ClusterForm, cluster: Cluster | None, impact: Impact | None = None
) -> HttpResponse:
    form.mark_fields()
    context: dict[str, Any] = {"form": form, "cluster": cluster, "impact": impact}
    status = 422 if form.errors else 200
    return render_page(
        request, "mirrors/clusters/form.html", context, section="clusters", status=status
    )


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def delete_cluster(request: HttpRequest, alias: str) -> HttpResponse:
    cluster = get_object_or_404(Cluster, alias=alias)
    error = ""
    if request.method == "POST":
        try:
            if request.POST.get("typed", "").strip() != alias:
                raise UnderstudyError(f"Type {alias} exactly; nothing was deleted.")
            services.delete_cluster(cluster=cluster, who=request.user.get_username())
        except UnderstudyError as refusal:
            error = refusal.message
        else:
            messages.success(request, f"{alias} is deleted.")
            return redirect("clusters")
    context = {
        "title": f"Delete {alias}",
        "verb": f"Delete {alias}",
        "sentences": [
            "Understudy deletes the connection settings and observations. The Kafka cluster "
            "itself is not changed."
        ],
        "expected": alias,
        "action": request.path,
        "back": f"/clusters/{alias}/",
        "error": error,
    }
    status = 422 if error else 200
    return render_page(request, "confirm.html", context, section="clusters", status=status)

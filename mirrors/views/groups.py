"""Consumer groups of one cluster, over all its flows."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from mirrors.lists.groups import CLUSTER_GROUPS
from mirrors.models import Cluster, Role, needs
from mirrors.models.groups import flows_by_group, groups_named, groups_of
from mirrors.views.page import curl, mark_cluster, render_page
from mirrors.views.tables import (
    Table,
    export,
    is_sorted_by_default,
    table_of,
    table_of_names,
)


@require_safe
@needs(Role.VIEWER)
def list_groups(request: HttpRequest, alias: str) -> HttpResponseBase:
    cluster = mark_cluster(get_object_or_404(Cluster, alias=alias))
    rows = groups_of(cluster)
    if download := export(request, CLUSTER_GROUPS, rows, f"{alias}-groups"):
        return download
    context = {
        "cluster": cluster,
        "table": _table(request, cluster, rows),
        "commands": [curl(request, "Its groups", "GET", f"clusters/{alias}/groups/")],
    }
    return render_page(request, "mirrors/groups/list.html", context, section="clusters", every=5)


def _table(request: HttpRequest, cluster: Cluster, rows: QuerySet[Any]) -> Table:
    """Sorted by name, only the groups of this page are counted; otherwise all, to sort them."""
    if not is_sorted_by_default(request, CLUSTER_GROUPS):
        return table_of(request, CLUSTER_GROUPS, rows)
    known = flows_by_group(cluster)
    return table_of_names(
        request, CLUSTER_GROUPS, known, lambda names: groups_named(cluster, known, names)
    )

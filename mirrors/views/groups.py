"""Consumer groups: of all flows, one group of a flow, and those of one cluster."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.formatting import arrow
from mirrors.domain.groups.commands import describe_group
from mirrors.lists.groups import CLUSTER_GROUPS, CONSUMER_GROUPS, GROUP_PARTITIONS, GROUP_STATES
from mirrors.models import Cluster, Flow, GroupOffset, needs
from mirrors.models.groups.clusters import flows_by_group, groups_named, groups_of
from mirrors.models.groups.summaries import (
    finish_summaries,
    finish_summary,
    flow_names,
    group_summaries,
)
from mirrors.views.page import curl, filter_of, mark_cluster, render_page
from mirrors.views.tables import (
    Table,
    export,
    is_file,
    is_sorted_by_default,
    table_of,
    table_of_names,
)

# A longer choice is no help; the search finds groups, and a flow's page links here.
_MOST_FLOWS = 200


@require_safe
@needs(Right.VIEW)
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


@require_safe
@needs(Right.VIEW)
def list_all(request: HttpRequest) -> HttpResponseBase:
    """One row per flow and group: problems first."""
    rows, flow = group_summaries(), _flow_of(request)
    if flow is not None:
        rows = rows.filter(flow=flow.pk)
    if download := export(
        request, CONSUMER_GROUPS, rows, "consumer-groups", mark=_finisher(request)
    ):
        return download
    table = table_of(request, CONSUMER_GROUPS, rows)
    table.page.object_list = finish_summaries(table.page)
    context = {
        "table": dataclasses.replace(table, filtered=table.filtered or flow is not None),
        "flow": flow,
        "filters": [
            _flow_filter(flow),
            filter_of("sync", "Offset sync", CONSUMER_GROUPS.filters["sync"], table.chosen),
            filter_of("group_state", "State", GROUP_STATES, table.chosen),
        ],
        "commands": [curl(request, "These groups", "GET", "consumer-groups/")],
    }
    return render_page(request, "mirrors/groups/all.html", context, section="groups", every=5)


@require_safe
@needs(Right.VIEW)
def show_group(request: HttpRequest, pk: int) -> HttpResponseBase:
    """One group of one flow: each partition on both clusters. The group is in `?group=`."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    name = request.GET.get("group", "").replace("\x00", "")
    found = finish_summaries(group_summaries().filter(flow=pk, group=name))
    if not found:
        raise Http404
    rows = GroupOffset.objects.filter(flow=pk, group=name)
    if download := export(request, GROUP_PARTITIONS, rows, f"group-{pk}"):
        return download
    context = {
        "flow": flow,
        "group": found[0],
        "table": table_of(request, GROUP_PARTITIONS, rows),
        "describe": [
            (
                cluster.alias,
                # A placeholder, since no page shows a secret.
                describe_group(
                    cluster.bootstrap_servers,
                    name,
                    config_file=f"{cluster.alias}-client.properties",
                ),
            )
            for cluster in (flow.source, flow.target)
        ],
        "commands": [
            curl(
                request,
                "Its partitions",
                "GET",
                f"flows/{pk}/groups/?{urlencode({'group': name})}",
            )
        ],
    }
    return render_page(request, "mirrors/groups/detail.html", context, section="groups", every=5)


def _finisher(request: HttpRequest) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Finishes the rows of a file; reads the flows' names only if a file is asked for."""
    names = flow_names() if is_file(request) else {}
    return lambda row: finish_summary(row, names)


def _flow_of(request: HttpRequest) -> Flow | None:
    """The flow of `?flow=`, by its id."""
    key = request.GET.get("flow", "")
    if not re.fullmatch(r"[0-9]{1,18}", key):
        return None
    return Flow.objects.select_related("source", "target").filter(pk=int(key)).first()


def _flow_filter(chosen: Flow | None) -> dict[str, Any]:
    """The choice of flows, at most `_MOST_FLOWS` of them."""
    names = dict(islice(flow_names().items(), _MOST_FLOWS))
    if chosen is not None:
        names[chosen.pk] = chosen.name
    return {
        "field": "flow",
        "label": "Flow",
        "values": list(names),
        "texts": {key: arrow(name) for key, name in names.items()},
        "chosen": chosen.pk if chosen else "",
    }

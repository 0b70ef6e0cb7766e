"""`GET /api/v1/topology/`: clusters and flows with their current figures, page by page."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from mirrors.api.account import AccountOfFlow
from mirrors.domain.access.rights import Right
from mirrors.models import Cluster
from mirrors.models.flow_queries import flows_with_lag
from monitoring.topology import Topology, figures_setter

MOST_REACHED = 100
_PAGES: Any = api_settings.DEFAULT_PAGINATION_CLASS


class ReachSerializer(serializers.Serializer[Any]):
    """A cluster that records reach, and the smallest number of flows on the path."""

    alias = serializers.CharField()
    hops = serializers.IntegerField()


# Component names are shipped: classes of generated clients have these names.
@extend_schema_serializer(component_name="Place")
class TopologyClusterSerializer(serializers.Serializer[Any]):
    alias = serializers.CharField()
    state = serializers.CharField(source="seen")
    reason = serializers.CharField()
    brokers = serializers.IntegerField(allow_null=True)
    checked_at = serializers.DateTimeField(allow_null=True)
    reaches = ReachSerializer(many=True)
    reach_count = serializers.IntegerField()


@extend_schema_serializer(component_name="Way")
class TopologyFlowSerializer(AccountOfFlow):
    """`state` is that of the pages: instead of `running` also `lagging`, `stale`, or `unknown`
    if the source does not respond.
    """

    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    source: Any = serializers.CharField(source="source.alias")
    target = serializers.CharField(source="target.alias")
    state = serializers.CharField(source="shown_state")
    reason = serializers.CharField()
    offset_lag = serializers.IntegerField(allow_null=True)
    time_lag_ms = serializers.IntegerField(allow_null=True)
    records_per_second = serializers.FloatField(allow_null=True)
    bytes_per_second = serializers.FloatField(allow_null=True)
    as_of = serializers.DateTimeField(allow_null=True)


class TopologySerializer(serializers.Serializer[Any]):
    cluster_count = serializers.IntegerField()
    flow_count = serializers.IntegerField()
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    clusters = TopologyClusterSerializer(many=True)
    flows = TopologyFlowSerializer(many=True)


class TopologyView(APIView):
    """Clusters with what their records reach, flows with state, lag and rate.

    A page has up to `page_size` clusters and up to `page_size` flows; one list may end first.
    `reaches` lists the 100 nearest clusters; `reach_count` counts all.
    """

    read_right = Right.VIEW

    @extend_schema(
        operation_id="topology",
        parameters=[
            OpenApiParameter("page", int, description="From 1 on."),
            OpenApiParameter("page_size", int, description="From 1 to 1,000; 100 by default."),
        ],
        responses=TopologySerializer,
    )
    def get(self, request: Request) -> Response:
        topology = Topology.now()
        keys = sorted(flow.pk for flow in topology.flows)
        pages = _PAGES()
        # Both lists have the same page size, so the longer one has the last page.
        longer: list[Any] = max(topology.clusters, keys, key=len)
        pages.paginate_queryset(longer, request, view=self)
        first, last = pages.page.start_index() - 1, pages.page.end_index()
        found = {
            "cluster_count": len(topology.clusters),
            "flow_count": len(keys),
            "next": pages.get_next_link(),
            "previous": pages.get_previous_link(),
            "clusters": _clusters(topology, topology.clusters[max(0, first) : last]),
            "flows": _flows(keys[max(0, first) : last]),
        }
        return Response(TopologySerializer(found).data)


def _clusters(topology: Topology, clusters: list[Cluster]) -> list[Cluster]:
    hops = topology.hops(clusters)
    for cluster in clusters:
        reach = hops.get(cluster.alias, {})
        cluster.reaches = [  # type: ignore[attr-defined]
            {"alias": alias, "hops": count} for alias, count in list(reach.items())[:MOST_REACHED]
        ]
        cluster.reach_count = len(reach)  # type: ignore[attr-defined]
    return clusters


def _flows(keys: list[int]) -> list[Any]:
    set_figures = figures_setter(timezone.now())
    return [set_figures(flow) for flow in flows_with_lag().filter(pk__in=keys).order_by("pk")]

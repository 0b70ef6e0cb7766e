"""`GET /api/v1/topology/`: clusters and flows with the figures of now, part by part."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from mirrors.api.account import AccountOfFlow
from mirrors.models import Cluster, Role
from mirrors.models.flow_queries import flows_with_lag
from monitoring.views.topology import World, figures_of

MOST_REACHED = 100
_PAGES: Any = api_settings.DEFAULT_PAGINATION_CLASS


class ReachSerializer(serializers.Serializer[Any]):
    """A cluster that records get to, and over how many flows at least."""

    alias = serializers.CharField()
    hops = serializers.IntegerField()


class PlaceSerializer(serializers.Serializer[Any]):
    alias = serializers.CharField()
    state = serializers.CharField(source="seen")
    reason = serializers.CharField()
    brokers = serializers.IntegerField(allow_null=True)
    checked_at = serializers.DateTimeField(allow_null=True)
    reaches = ReachSerializer(many=True)
    reach_count = serializers.IntegerField()


class WaySerializer(AccountOfFlow):
    """`state` is what a page shows: of `running` it tells apart `lagging`, `stale`, and `unknown`
    where the source does not answer.
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
    clusters = PlaceSerializer(many=True)
    flows = WaySerializer(many=True)


class Topology(APIView):
    """Clusters with what their records reach, flows with state, lag and rate.

    A page has as many clusters and as many flows as `page_size` says; one list may end before the
    other. Of what a cluster reaches the nearest are named, 100 at most: `reach_count` has them all.
    """

    role = Role.VIEWER

    @extend_schema(
        operation_id="topology",
        parameters=[
            OpenApiParameter("page", int, description="From 1 on."),
            OpenApiParameter("page_size", int, description="From 1 to 1,000; 100 by default."),
        ],
        responses=TopologySerializer,
    )
    def get(self, request: Request) -> Response:
        world = World.now()
        keys = sorted(way.pk for way in world.ways)
        pages = _PAGES()
        # Both lists are cut at the same places, so the longer one says how many pages there are.
        longer: list[Any] = max(world.clusters, keys, key=len)
        pages.paginate_queryset(longer, request, view=self)
        first, last = pages.page.start_index() - 1, pages.page.end_index()
        found = {
            "cluster_count": len(world.clusters),
            "flow_count": len(keys),
            "next": pages.get_next_link(),
            "previous": pages.get_previous_link(),
            "clusters": _places(world, world.clusters[max(0, first) : last]),
            "flows": _flows(keys[max(0, first) : last]),
        }
        return Response(TopologySerializer(found).data)


def _places(world: World, clusters: list[Cluster]) -> list[Cluster]:
    hops = world.hops(clusters)
    for cluster in clusters:
        reach = hops.get(cluster.alias, {})
        cluster.reaches = [  # type: ignore[attr-defined]
            {"alias": alias, "hops": count} for alias, count in list(reach.items())[:MOST_REACHED]
        ]
        cluster.reach_count = len(reach)  # type: ignore[attr-defined]
    return clusters


def _flows(keys: list[int]) -> list[Any]:
    figured = figures_of(timezone.now())
    return [figured(flow) for flow in flows_with_lag().filter(pk__in=keys).order_by("pk")]

"""`GET /api/v1/topology/`: clusters and flows with the figures of now, in one answer."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from mirrors.models import Role
from mirrors.models.reading import flows_with_lag
from monitoring.views.topology import World, figures_of


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


class WaySerializer(serializers.Serializer[Any]):
    """`state` is what a page shows: `lagging` and `stale` are told apart from `running`."""

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
    clusters = PlaceSerializer(many=True)
    flows = WaySerializer(many=True)


class Topology(APIView):
    """Every cluster with what its records reach, every flow with state, lag and rate; unpaged."""

    role = Role.VIEWER

    @extend_schema(operation_id="topology", responses=TopologySerializer)
    def get(self, request: Request) -> Response:
        world = World.now()
        figured = figures_of(timezone.now())
        for cluster in world.clusters:
            reach = world.hops.get(cluster.alias, {})
            cluster.reaches = [  # type: ignore[attr-defined]
                {"alias": alias, "hops": hops} for alias, hops in reach.items()
            ]
        flows = [figured(flow) for flow in flows_with_lag().order_by("pk")]
        found = {"clusters": world.clusters, "flows": flows}
        return Response(TopologySerializer(found).data)

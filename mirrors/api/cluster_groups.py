"""REST of the consumer groups of one cluster."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.models import Cluster, GroupOffset
from mirrors.models.cluster_groups import flows_by_group, groups_named


class ClusterGroupSerializer(serializers.Serializer[Any]):
    """`moved` is in how many partitions a target has the group where it belongs."""

    group = serializers.CharField()
    topics = serializers.IntegerField()
    partitions = serializers.IntegerField(source="places")
    flows = serializers.IntegerField()
    moved = serializers.IntegerField()
    as_of = serializers.DateTimeField(source="last_seen")


class ClusterGroupViewSet(viewsets.GenericViewSet[Any]):
    """Consumer groups that flows know on this cluster."""

    queryset = GroupOffset.objects.all()
    serializer_class = ClusterGroupSerializer
    filter_backends = ()

    @extend_schema(responses=ClusterGroupSerializer(many=True))
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        cluster = get_object_or_404(Cluster, alias=self.kwargs["alias"])
        wanted = request.query_params.get("search", "").replace("\x00", "")[:255].casefold()
        known = flows_by_group(cluster)
        page: Any = self.paginate_queryset([one for one in known if wanted in one.casefold()])
        rows = groups_named(cluster, known, page)
        return self.get_paginated_response(self.get_serializer(rows, many=True).data)

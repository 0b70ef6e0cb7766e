"""REST of the consumer groups of one cluster."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.models import Cluster, GroupOffset
from mirrors.models.reading import groups_of


class ClusterGroupSerializer(serializers.Serializer[Any]):
    """`moved` is in how many partitions a target has the group where it belongs."""

    group = serializers.CharField()
    topics = serializers.IntegerField()
    partitions = serializers.IntegerField(source="places")
    flows = serializers.IntegerField()
    moved = serializers.IntegerField()
    as_of = serializers.DateTimeField(source="last_seen")


class ClusterGroupViewSet(mixins.ListModelMixin, viewsets.GenericViewSet[Any]):
    """Consumer groups that flows know on this cluster."""

    queryset = GroupOffset.objects.all()
    serializer_class = ClusterGroupSerializer
    filter_backends = ()

    @extend_schema(responses=ClusterGroupSerializer(many=True))
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().list(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[Any]:
        if getattr(self, "swagger_fake_view", False):
            return self.queryset.none()
        cluster = get_object_or_404(Cluster, alias=self.kwargs["alias"])
        wanted = self.request.query_params.get("search", "").replace("\x00", "")[:255]
        return groups_of(cluster).filter(group__icontains=wanted).order_by("group")

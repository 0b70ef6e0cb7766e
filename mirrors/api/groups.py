"""REST of consumer groups: their offsets on both clusters, by flow and by cluster."""

from __future__ import annotations

from typing import Any, ClassVar

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import StrictModelSerializer
from mirrors.api.viewsets import FlowRelatedViewSet
from mirrors.lists.groups import GROUP_PARTITIONS
from mirrors.models import Cluster, GroupOffset
from mirrors.models.groups import NO_PARTITION, flows_by_group, groups_named


class GroupSerializer(StrictModelSerializer):
    """An excluded group, or one without offsets, has neither topic nor partition."""

    topic = serializers.SerializerMethodField()
    partition = serializers.SerializerMethodField()

    class Meta:
        model = GroupOffset
        fields = GROUP_PARTITIONS.fields
        extra_kwargs = GROUP_PARTITIONS.extra_kwargs
        read_only_fields = fields

    def get_topic(self, row: GroupOffset) -> str | None:
        return row.topic or None

    def get_partition(self, row: GroupOffset) -> int | None:
        return None if row.partition == NO_PARTITION else row.partition


class GroupViewSet(FlowRelatedViewSet):
    """Group-partitions: offset on the source, its translation, and the offset on the target."""

    queryset = GroupOffset.objects.order_by("group", "topic", "partition")
    serializer_class = GroupSerializer
    search_fields = GROUP_PARTITIONS.search
    ordering_fields = ()
    ordering_aliases: ClassVar = GROUP_PARTITIONS.orderings
    filter_fields: ClassVar = {
        "group": "group",
        "topic": "topic",
        "outcome": "outcome",
        "sync_state": "sync_state",
    }


class ClusterGroupSerializer(serializers.Serializer[Any]):
    """`moved` is the number of partitions in which a target has the group's resume offset."""

    group = serializers.CharField()
    topics = serializers.IntegerField()
    partitions = serializers.IntegerField(source="places")
    flows = serializers.IntegerField()
    moved = serializers.IntegerField()
    as_of = serializers.DateTimeField(source="last_seen")


class ClusterGroupViewSet(viewsets.GenericViewSet[Any]):
    """Consumer groups of this cluster that its flows know."""

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

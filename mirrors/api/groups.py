"""REST of consumer groups: their offsets on both clusters, by flow and by cluster."""

from __future__ import annotations

from typing import Any, ClassVar

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import ExactFilter, Ordering, Search, StrictModelSerializer
from mirrors.api.viewsets import FlowRelatedViewSet
from mirrors.lists.groups import CONSUMER_GROUPS, GROUP_PARTITIONS
from mirrors.models import Cluster, GroupOffset
from mirrors.models.groups.clusters import flows_by_group, groups_named
from mirrors.models.groups.offsets import NO_PARTITION
from mirrors.models.groups.summaries import GroupSummary, finish_summaries, group_summaries


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
    """Consumer groups of this cluster, as its flows last listed them."""

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


class ConsumerGroupSerializer(serializers.Serializer[Any]):
    """One group of one flow: totals over its replicated partitions. Null means unknown."""

    flow = serializers.IntegerField(help_text="The id of the flow.")
    flow_name = serializers.CharField(source="label")
    group = serializers.CharField()
    state = serializers.CharField(
        source="group_state",
        help_text="State on the source, by Kafka's name, at the last listing; empty if unknown.",
    )
    lag = serializers.IntegerField(
        allow_null=True,
        help_text="Records on the source after the group's offsets; null if any is unknown.",
    )
    least_lag = serializers.IntegerField(help_text="Lag in the partitions where it is known.")
    lag_reason = serializers.CharField(help_text="Why the lag is unknown; empty if known.")
    worst = serializers.CharField(
        help_text="The partition with most lag, as `topic-0`; empty if none has any."
    )
    partitions = serializers.IntegerField(help_text="Replicated partitions with an offset.")
    ready = serializers.IntegerField(
        help_text="Of these, the ones whose resume offset on the target is known."
    )
    re_reads = serializers.IntegerField(
        allow_null=True,
        help_text="Records that the group would read again after a failover, at most.",
    )
    sync_state = serializers.CharField(
        source="sync", help_text="The worst outcome of the offset sync over the partitions."
    )
    reason = serializers.CharField(help_text="The reason of that outcome.")
    as_of = serializers.DateTimeField(
        source="seen_at", help_text="When the oldest figure was measured."
    )


class GroupOrdering(Ordering):
    """Rows are groups, not models: the group and its flow keep pages stable."""

    def remove_invalid_fields(self, *args: Any, **kwargs: Any) -> list[Any]:
        return [*super().remove_invalid_fields(*args, **kwargs)[:-1], "group", "flow"]


class ConsumerGroupViewSet(viewsets.GenericViewSet[Any]):
    """Consumer groups of all flows, problems first: lag on the source, and readiness to resume."""

    queryset = GroupSummary.objects.all()
    serializer_class = ConsumerGroupSerializer
    filter_backends = (ExactFilter, Search, GroupOrdering)
    search_fields = CONSUMER_GROUPS.search
    ordering_fields = ()
    ordering = ("rank", *CONSUMER_GROUPS.tie)
    ordering_aliases: ClassVar = CONSUMER_GROUPS.orderings
    filter_fields: ClassVar = {
        "flow": "flow",
        "group": "group",
        "state": "group_state",
        "sync_state": "sync",
    }

    def get_queryset(self) -> Any:
        return group_summaries()

    @extend_schema(
        summary="List consumer groups of all flows",
        responses=ConsumerGroupSerializer(many=True),
    )
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        rows = finish_summaries(
            self.paginate_queryset(self.filter_queryset(self.get_queryset())) or ()
        )
        return self.get_paginated_response(self.get_serializer(rows, many=True).data)

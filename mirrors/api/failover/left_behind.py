"""REST of decisions to leave a topic or partition behind in failovers: list, make, withdraw."""

from __future__ import annotations

from typing import Any, ClassVar

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import (
    ReasonSerializer,
    StrictModelSerializer,
    StrictSerializer,
    person,
)
from mirrors.api.viewsets import FlowFindingViewSet
from mirrors.lists.failover import LEFT_BEHIND
from mirrors.models import Flow, LeftBehind
from mirrors.services.failover import left_behind


class LeftBehindSerializer(StrictModelSerializer):
    """One decision; `partition` is null for the whole topic."""

    partition = serializers.SerializerMethodField()

    class Meta:
        model = LeftBehind
        fields = LEFT_BEHIND.fields
        extra_kwargs = LEFT_BEHIND.extra_kwargs
        read_only_fields = fields

    def get_partition(self, row: LeftBehind) -> int | None:
        return None if row.is_whole else row.partition


class LeaveBehindSerializer(StrictSerializer):
    topic = serializers.CharField(max_length=255)
    partition = serializers.IntegerField(
        required=False,
        allow_null=True,
        default=None,
        min_value=0,
        max_value=left_behind.MOST_PARTITIONS - 1,
    )
    reason = serializers.CharField(max_length=left_behind.LONGEST_REASON)


class LeftBehindViewSet(FlowFindingViewSet):
    """Decisions to leave a topic or partition behind; a valid one has no `withdrawn_at`."""

    queryset = LeftBehind.objects.select_related("flow__source", "flow__target").order_by("-id")
    serializer_class = LeftBehindSerializer
    search_fields = ("topic", "reason", "decided_by")
    ordering_fields = ("id", "topic", "decided_at", "withdrawn_at")
    filter_fields: ClassVar = {"topic": "topic", "decided_by": "decided_by"}

    @extend_schema(request=LeaveBehindSerializer, responses={201: LeftBehindSerializer})
    def create(self, request: Request, flow_id: str) -> Response:
        """Leave a topic, or one partition of it, behind in the failovers of this flow."""
        asked = LeaveBehindSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given: dict[str, Any] = asked.validated_data
        flows = Flow.objects.select_related("source", "target")
        row = left_behind.decide(
            flow=get_object_or_404(flows, pk=flow_id),
            **given,
            who=person(request),
            now=timezone.now(),
        )
        return Response(LeftBehindSerializer(row).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=ReasonSerializer, responses=LeftBehindSerializer)
    @action(detail=True, methods=["post"], filter_backends=[], pagination_class=None)
    def withdraw(self, request: Request, flow_id: str, pk: str) -> Response:
        """Withdraw the decision. Refused (409) if it was withdrawn already."""
        asked = ReasonSerializer(data=request.data or {})
        asked.is_valid(raise_exception=True)
        row = left_behind.withdraw(
            row=get_object_or_404(self.get_queryset(), pk=pk),
            why=str(asked.validated_data.get("reason", "")),
            who=person(request),
            now=timezone.now(),
        )
        return Response(LeftBehindSerializer(row).data)

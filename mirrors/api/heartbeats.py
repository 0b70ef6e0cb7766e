"""REST of a flow's heartbeats: when the last was written, when it arrived, and its latency."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.lists.sync import HEARTBEATS
from mirrors.models import Flow, HeartbeatState


class HeartbeatSerializer(serializers.ModelSerializer[HeartbeatState]):
    """As of the last check. `seen_at` is the time in the newest heartbeat that arrived."""

    class Meta:
        model = HeartbeatState
        fields = HEARTBEATS.fields


class HeartbeatViewSet(viewsets.GenericViewSet[Any]):
    """When heartbeats of this direction are written and arrive; null is unknown."""

    queryset = HeartbeatState.objects.all()
    serializer_class = HeartbeatSerializer
    pagination_class = None
    filter_backends = ()

    @extend_schema(responses=forced_singular_serializer(HeartbeatSerializer))
    def list(self, request: Request, flow_id: str) -> Response:
        flow = get_object_or_404(Flow.objects.only("pk"), pk=flow_id)
        row = HeartbeatState.objects.filter(flow=flow).first() or HeartbeatState(flow=flow)
        return Response(HeartbeatSerializer(row).data)

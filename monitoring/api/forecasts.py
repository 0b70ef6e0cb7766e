"""REST of a flow's forecast: data loss through retention, and open transactions."""

from __future__ import annotations

from django.shortcuts import get_object_or_404
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import StrictModelSerializer, StrictSerializer
from mirrors.models import Flow
from monitoring.alerts import facts
from monitoring.models import FlowOutlook


class RiskSerializer(StrictSerializer):
    topic = serializers.CharField()
    partition = serializers.IntegerField()
    position = serializers.IntegerField()
    earliest = serializers.IntegerField()
    end = serializers.IntegerField()
    lost = serializers.IntegerField(help_text="Records deleted before they were replicated.")
    loses_at = serializers.DateTimeField()
    per_second = serializers.FloatField(help_text="Records that retention deletes per second.")
    copied_per_second = serializers.FloatField()


class HeldSerializer(StrictSerializer):
    topic = serializers.CharField()
    partition = serializers.IntegerField()
    since = serializers.DateTimeField()
    records = serializers.IntegerField()


class OutlookSerializer(StrictModelSerializer):
    as_of = serializers.DateTimeField(allow_null=True, read_only=True)
    stale_since = serializers.DateTimeField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    risks = RiskSerializer(many=True)
    held = HeldSerializer(many=True)

    class Meta:
        model = FlowOutlook
        fields = (
            "as_of",
            "stale_since",
            "reason",
            "offset_lag",
            "loses_at",
            "at_risk",
            "risks",
            "held_since",
            "held_records",
            "held",
        )
        read_only_fields = fields


class OutlookViewSet(viewsets.ViewSet):
    """Forecast of a flow from the sweeps of its source; needs no report of a runner."""

    @extend_schema(responses=forced_singular_serializer(OutlookSerializer))
    def list(self, request: Request, flow_id: str) -> Response:
        """Before the first source scan, `as_of` is null and the other figures are unknown."""
        flow = get_object_or_404(Flow.objects.select_related("source"), pk=flow_id)
        return Response(facts.forecast_for_api(flow))

"""`GET /api/v1/schedules/`: flows with a schedule or an end, their next run and their last one."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.account import AccountOfFlow
from mirrors.models import Flow
from monitoring.schedules import scheduled_flows, set_schedules


class ScheduleSerializer(AccountOfFlow):
    """`offset_lag` is what a run that starts now would copy; `ends_at` is when the window ends the
    current run.
    """

    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    state = serializers.CharField(source="word", help_text="running, waiting, held or ended")
    sentence = serializers.CharField()
    schedule = serializers.CharField(allow_null=True)
    zone = serializers.CharField(allow_null=True)
    window_minutes = serializers.IntegerField(source="window", allow_null=True)
    until = serializers.CharField(allow_null=True)
    next_at = serializers.DateTimeField(allow_null=True)
    ends_at = serializers.DateTimeField(allow_null=True)
    offset_lag = serializers.IntegerField(allow_null=True)
    as_of = serializers.DateTimeField(allow_null=True)
    last_started = serializers.DateTimeField(allow_null=True)
    last_records = serializers.IntegerField(allow_null=True)


class ScheduleViewSet(viewsets.GenericViewSet[Any]):
    """Flows that run by cron or until a moment."""

    queryset = Flow.objects.all()
    serializer_class = ScheduleSerializer
    search_fields = ("source__alias", "target__alias", "reason")
    ordering_fields = ("id", "offset_lag")
    filter_fields: ClassVar = {"source": "source__alias", "target": "target__alias"}

    def get_queryset(self) -> QuerySet[Any]:
        return scheduled_flows().order_by("pk")

    @extend_schema(responses=ScheduleSerializer(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        rows = set_schedules(list(page), timezone.now())
        return self.get_paginated_response(ScheduleSerializer(rows, many=True).data)

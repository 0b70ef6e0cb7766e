"""REST of a flow's sync tasks: last run, next run, and why a task does not run."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.models import DutyRun, Flow
from mirrors.services.sync import scheduler


class RunSerializer(serializers.ModelSerializer[DutyRun]):
    class Meta:
        model = DutyRun
        fields = (
            "started_at",
            "ended_at",
            "counts",
            "reasons",
            "error",
            "since",
            "runs",
            "totals",
        )


class StandingSerializer(serializers.Serializer[Any]):
    """`last` is the last run; `runs` above 1 means identical runs since `since`."""

    duty = serializers.CharField(source="schedule.name")
    does = serializers.CharField(source="schedule.does")
    enabled = serializers.BooleanField()
    interval_seconds = serializers.IntegerField()
    state = serializers.CharField()
    next_at = serializers.DateTimeField(allow_null=True)
    reason = serializers.CharField(source="judgement.reason")
    last = RunSerializer(allow_null=True)


class DutyViewSet(viewsets.GenericViewSet[Any]):
    """Sync tasks: what a flow synchronizes beside its records."""

    queryset = DutyRun.objects.all()
    serializer_class = StandingSerializer
    pagination_class = None
    filter_backends = ()

    @extend_schema(responses=StandingSerializer(many=True))
    def list(self, request: Request, flow_id: str) -> Response:
        flows = Flow.objects.select_related("source", "target")
        flow = get_object_or_404(flows, pk=flow_id)
        rows = scheduler.task_statuses(flow=flow, now=timezone.now())
        return Response(StandingSerializer(rows, many=True).data)

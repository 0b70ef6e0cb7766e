"""REST of the last lines of a runner's log: flows/{id}/log/, runners/{name}/log/."""

from __future__ import annotations

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.shapes import StrictSerializer
from mirrors.models import Flow, Role, RunnerLog
from mirrors.services import runner_logs


class LogSerializer(StrictSerializer):
    """At most 200 lines, the oldest first; null and none while nothing was read."""

    written_at = serializers.DateTimeField(read_only=True, allow_null=True)
    lines = serializers.ListField(child=serializers.CharField(), read_only=True)


def answer_with(log: RunnerLog | None) -> Response:
    found = {"written_at": log.written_at if log else None, "lines": log.lines if log else []}
    return Response(LogSerializer(found).data)


class FlowLogViewSet(viewsets.GenericViewSet[Flow]):
    """What the runner logged of one flow lately."""

    queryset = Flow.objects.select_related("source", "target")
    serializer_class = LogSerializer
    read_role = Role.OPERATOR
    pagination_class = None
    filter_backends = ()

    @extend_schema(responses=LogSerializer)
    def list(self, request: Request, flow_id: str) -> Response:
        flow = get_object_or_404(self.get_queryset(), pk=flow_id)
        return answer_with(runner_logs.of_flow(flow=flow))

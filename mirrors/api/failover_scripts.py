"""REST of a run's script: plain text, to be kept where people find it when we are down."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.viewsets import ViewSet

from mirrors.models import FailoverRun
from mirrors.services.failover.failover_scripts import script_of

SHELL = "text/x-shellscript; charset=utf-8"


class FailoverScriptViewSet(ViewSet):
    """A plan as a shell script that needs Kafka's own tools and nothing of ours."""

    @extend_schema(
        operation_id="failovers_script_retrieve",
        parameters=[OpenApiParameter("run_id", int, OpenApiParameter.PATH)],
        responses={(200, "text/x-shellscript"): OpenApiTypes.STR},
    )
    def list(self, request: Request, run_id: str) -> HttpResponse:
        """409 while the run has no plan."""
        rows = FailoverRun.objects.select_related("flow__source", "flow__target")
        name, text = script_of(run=get_object_or_404(rows, pk=run_id))
        answer = HttpResponse(text, content_type=SHELL)
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer

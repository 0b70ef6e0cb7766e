"""The parts of a flow's page about schemas, and the request to compare the registries."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from mirrors.domain.access.rights import Right
from mirrors.models import Flow, SchemaSync, needs
from mirrors.models.schemas import schema_problem_of, syncs_schemas
from mirrors.services.schemas.sync import request_comparison


def schemas_part(request: HttpRequest, flow: Flow) -> dict[str, Any]:
    """The context beside the table of subjects."""
    return {
        "schemas": SchemaSync.objects.filter(flow=flow).first(),
        "enabled": syncs_schemas(flow),
        "problem": schema_problem_of(flow, timezone.now()),
    }


@require_POST
@needs(Right.OPERATE)
def compare_schemas(request: HttpRequest, pk: int) -> HttpResponse:
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    request_comparison(flow=flow, now=timezone.now())
    messages.success(request, "A worker reads both schema registries; this page shows the result.")
    return redirect("flow-part", pk=pk, part="schemas")

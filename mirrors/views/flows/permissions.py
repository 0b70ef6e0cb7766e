"""The page of the Kafka permissions that a flow needs, to copy or to download."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.permissions.formats import FORMATS
from mirrors.models import Flow, needs
from mirrors.services.permissions import permissions_document
from mirrors.views.page import curl, render_page


@require_safe
@needs(Right.VIEW)
def show_permissions(request: HttpRequest, pk: int) -> HttpResponseBase:
    """In one of three forms; with `failover` also what a failover needs."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    form = request.GET.get("form", "")
    form = form if form in FORMATS else FORMATS[0]
    failover = request.GET.get("failover") == "1"
    path = f"flows/{pk}/permissions/?form={form}&failover={str(failover).lower()}"
    context = {
        "flow": flow,
        "document": permissions_document(flow=flow, form=form, failover=failover),
        "forms": FORMATS,
        "commands": [curl(request, "Read them over REST", "GET", path)],
    }
    return render_page(request, "mirrors/flows/permissions.html", context, section="flows")

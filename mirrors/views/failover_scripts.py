"""A run's script to download from its page."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_safe

from mirrors.domain.errors import UnderstudyError
from mirrors.models import FailoverRun, Role, needs
from mirrors.services.failover.failover_scripts import script_of


@require_safe
@needs(Role.VIEWER)
def download_script(request: HttpRequest, pk: int) -> HttpResponse:
    rows = FailoverRun.objects.select_related("flow__source", "flow__target")
    run = get_object_or_404(rows, pk=pk)
    try:
        name, text = script_of(run=run)
    except UnderstudyError as error:
        messages.error(request, error.message)
        return redirect("failover", pk=pk)
    answer = HttpResponse(text, content_type="text/x-shellscript; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer

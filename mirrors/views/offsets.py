"""The offsets tab: translates one source offset, from the stored offset runs only."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from mirrors import tasks
from mirrors.domain.access.rights import Right
from mirrors.forms.flows import OffsetForm
from mirrors.models import Flow, RunIndex, needs
from mirrors.services.offsets.index_refresh import is_behind
from mirrors.services.offsets.translation import translate_offsets
from mirrors.views.flows.pages import flow_context
from mirrors.views.page import curl, render_page


@require_safe
@needs(Right.VIEW)
def show_offsets(request: HttpRequest, pk: int) -> HttpResponse:
    """Does not call Kafka. If the index is behind, a worker refreshes it, and the page reloads."""
    context = flow_context(request, pk, "offsets")
    flow = context["flow"]
    form = OffsetForm(request.GET if "offset" in request.GET else None)
    index = RunIndex.objects.filter(flow=flow).first()
    context |= {
        "tab_template": "mirrors/offsets/_flow_tab.html",
        "form": form,
        "indexed_at": index.as_of if index else None,
    }
    if form.is_bound and form.is_valid():
        context |= _answer(request, flow, form.cleaned_data)
    return render_page(request, "mirrors/flows/detail.html", context, section="flows", every=3)


def _answer(request: HttpRequest, flow: Flow, asked: dict[str, Any]) -> dict[str, Any]:
    tp, offset = (asked["topic"], asked["partition"]), asked["offset"]
    [answer] = translate_offsets(flow=flow, partitions={tp: [offset]}, with_bounds=True)[tp]
    behind = answer.outcome != "exact" and is_behind(flow=flow, partitions=[tp])
    if behind:
        tasks.refresh_runs_of.delay_on_commit(flow.pk)
    body = {"flow": flow.pk, "offsets": [asked]}
    return {
        "answer": answer,
        "behind": behind,
        "commands": [curl(request, "Ask over REST", "POST", "offsets/translate/", body)],
    }

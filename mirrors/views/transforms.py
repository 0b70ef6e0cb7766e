"""The page of a preview of rules: the newest records of a topic, before and after.

It shows the content of records, so it needs the role operator.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.transforms.evaluation import RecordParts
from mirrors.domain.transforms.rules import TRANSFORMS, format_rules, parse_rules
from mirrors.forms.transforms import RulePreviewForm
from mirrors.lists.flows import PREVIEWED_PATHS, PREVIEWED_RECORDS
from mirrors.models import Flow, FlowTopic, RulePreview, needs
from mirrors.services.topics import transforms
from mirrors.views.flows.rules import first_topic
from mirrors.views.page import curl, render_page
from mirrors.views.tables import file_of

_FILES = {"records": PREVIEWED_RECORDS, "paths": PREVIEWED_PATHS}


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.OPERATE)
def show_preview(request: HttpRequest, pk: int) -> HttpResponseBase:
    """A POST requests a preview; that of the form of a flow brings the rules that it edits."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target", "runner"), pk=pk)
    preview = _preview_of(request, flow)
    is_asked = request.method == "POST" and "count" in request.POST
    form = RulePreviewForm(
        request.POST if is_asked else None, initial=_initial(request, flow, preview)
    )
    if is_asked and form.is_valid():
        try:
            row = transforms.request_preview(
                flow=flow,
                topic=form.cleaned_data["topic"],
                count=form.cleaned_data["count"],
                rules=form.cleaned_data["transforms"],
                who=request.user.get_username(),
            )
        except InvalidSettings as error:
            form.refuse(error)
        except UnderstudyError as error:
            form.add_error(None, error.message)
        else:
            return redirect(f"{reverse('flow-rules', args=[pk])}?preview={row.pk}#preview-title")
    form.mark_fields()
    found = preview.found if preview else {}
    state = preview.state_at(timezone.now()) if preview else ""
    context: dict[str, Any] = {
        "flow": flow,
        "form": form,
        "topics": FlowTopic.objects.filter(flow=flow, remote_topic__isnull=False)
        .order_by("topic")
        .values_list("topic", flat=True)[:200],
        "preview": preview,
        "preview_state": state,
        "found": found,
        "effect": _sentence(found.get("effect", "")),
        "records": [_row(row) for row in found.get("rows", [])],
        "paths": found.get("paths", []),
        "never": [row for row in found.get("paths", []) if row["records"] == 0],
        "unread": [row for row in found.get("partitions", []) if row["reason"]],
        "commands": [
            curl(
                request,
                "Preview rules",
                "POST",
                f"flows/{pk}/rules/preview/",
                {"topic": "…", "count": transforms.DEFAULT_COUNT},
            )
        ],
    }
    if preview and (file := file_of(request, context, _FILES, f"preview-{preview.topic}")):
        return file
    return render_page(
        request,
        "mirrors/transforms/preview.html",
        context,
        section="flows",
        status=422 if form.errors else 200,
        every=1 if state == "requested" else None,
    )


def _sentence(effect: str) -> str:
    """`effect` is a clause of `effect_of`: about the topic, or about the rule of that number."""
    if effect.startswith("rule "):
        return f"{effect[0].upper()}{effect[1:]}."
    return f"The topic {effect}." if effect else ""


def _preview_of(request: HttpRequest, flow: Flow) -> RulePreview | None:
    number = request.GET.get("preview", "")
    if request.method == "POST" or not (number.isdecimal() and len(number) < 19):
        return None
    return RulePreview.objects.defer("request").filter(flow=flow, pk=int(number)).first()


def _initial(request: HttpRequest, flow: Flow, preview: RulePreview | None) -> dict[str, Any]:
    """What a preview had, or the rules that a form brings, or the flow's own."""
    stored = preview.rules if preview else flow.properties.get(TRANSFORMS, "")
    text = request.POST.get(TRANSFORMS, format_rules(parse_rules(stored), indent=2))
    if preview:
        return {"topic": preview.topic, "count": preview.count, TRANSFORMS: text}
    topic = request.GET.get("topic", "")[:249] or first_topic(flow)
    return {"topic": topic, TRANSFORMS: text}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """A record for the table, and its flat texts for files."""
    flat = {
        f"{side}_{part}": None if row[side] is None else _text(row[side], part)
        for side in ("before", "after")
        for part in RecordParts._fields
    }
    at = row["timestamp"]
    shown = {
        side: [(part, flat[f"{side}_{part}"]) for part in RecordParts._fields]
        for side in ("before", "after")
        if row[side] is not None
    }
    return {
        **row,
        **flat,
        "at": None if at < 0 else datetime.fromtimestamp(at / 1000, UTC),
        "parts": shown,
        "changes": ", ".join(row["changed"]),
    }


def _text(parts: dict[str, Any], part: str) -> str | None:
    """Text, or base64 where the bytes are not UTF-8; None for null."""
    if part == "headers":
        pairs = ((header["name"], _text(header, "value")) for header in parts["headers"])
        return "; ".join(f"{name}={'null' if text is None else text}" for name, text in pairs)
    if f"{part}_base64" in parts:
        return f"base64: {parts[f'{part}_base64']}"
    text: str | None = parts[part]
    return text

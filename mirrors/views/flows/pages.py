"""Pages of flows: the list, one flow with its tabs, and why a topic is replicated or not."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.settings.table import KEYS
from mirrors.domain.states.flows import OBSERVED
from mirrors.lists.flows import EXPLANATION, FLOWS, TOPICS
from mirrors.models import Flow, needs
from mirrors.models.account import with_dead_letters, with_repeats, with_stopped
from mirrors.models.drills.readiness import readiness_of, with_proof, with_readiness
from mirrors.models.flow_queries import flows_with_lag
from mirrors.models.flows import speed_sentences
from mirrors.services.clock import moment
from mirrors.services.explanation import explain_group_of, explain_topic_of
from mirrors.services.flows.schedules import run_state
from mirrors.views.audit import recent_changes
from mirrors.views.drills.readiness import mark_proof
from mirrors.views.flows.actions import actions_of
from mirrors.views.flows.rules import mark_effects, rules_with_topics
from mirrors.views.flows.tabs import PARTS, WHOLE_LISTS, Tab, lanes_of, menu
from mirrors.views.page import curl, filter_of, mark_flow, render_page
from mirrors.views.tables import clean, export, file_of, table_of, whole_file


@require_safe
@needs(Right.VIEW)
def list_flows(request: HttpRequest) -> HttpResponseBase:
    now = timezone.now()
    rows = with_proof(flows_with_lag())
    if download := file_of_flows(request, rows, "flows"):
        return download
    table = table_of(request, FLOWS, rows)
    for flow in table.page:
        mark_proof(mark_flow(flow, now), now)
    states = filter_of("observed_state", "State", OBSERVED.names, table.chosen)
    context = {"table": table, "filters": [states]}
    return render_page(request, "mirrors/flows/list.html", context, section="flows", every=3)


def file_of_flows(request: HttpRequest, rows: QuerySet[Any], name: str) -> HttpResponseBase | None:
    """The flows of a `with_proof` query as a download, if the address asks for one."""
    now = timezone.now()
    return export(request, FLOWS, rows, name, mark=lambda flow: mark_proof(flow, now))


@require_safe
@needs(Right.VIEW)
def show_flow(request: HttpRequest, pk: int, part: str = "overview") -> HttpResponseBase:
    context = flow_context(request, pk, part)
    flow, shown = context["flow"], PARTS[part]
    rows = shown.rows(flow) if shown.rows else None
    name = f"{flow.source.alias}-{flow.target.alias}"
    if shown.spec and rows is not None:
        download = export(request, shown.spec, rows, f"{name}-{part}")
        if download:
            return download
    context["tab_template"] = shown.template
    context |= _part_context(request, flow, shown, rows)
    if part == "partitions":
        context |= lanes_of(context["last_job"])
    if (lists := WHOLE_LISTS.get(part)) and (file := file_of(request, context, lists, name)):
        return file
    return render_page(request, "mirrors/flows/detail.html", context, section="flows", every=2)


def flow_context(request: HttpRequest, pk: int, tab: str) -> dict[str, Any]:
    """The context of the header that all tabs of a flow share."""
    now = timezone.now()
    rows = with_dead_letters(with_repeats(with_stopped(with_readiness(flows_with_lag(), now))))
    flow = mark_flow(get_object_or_404(rows, pk=pk), now)
    # Only the newest can be open.
    last = flow.jobs.first()
    speed, packing = flow.current_speed(now), flow.current_packing(now)
    packed_at = packing.packed_at if packing is not None else None
    return {
        "flow": mark_proof(flow, now),
        "standing": run_state(flow=flow, now=now),
        "speed": speed_sentences(flow, speed) if speed is not None else None,
        "packing": packing,
        "packed_at": None if packed_at is None else moment(packed_at),
        "ready": readiness_of([flow], now)[pk].score,
        "job": last if last and last.ended_at is None else None,
        "last_job": last,
        "tab": tab,
        **menu(pk, tab),
        "actions": actions_of(request, flow),
    }


def _part_context(
    request: HttpRequest, flow: Flow, part: Tab, rows: QuerySet[Any] | None
) -> dict[str, Any]:
    if part.context is not None:
        return part.context(flow)
    if part.spec is None or rows is None:
        shown: dict[str, Any] = {
            "settings": settings_of(flow),
            "labels": list(flow.labels.values_list("name", flat=True)),
            "transforms": rules_with_topics(flow),
            "commands": commands_of(request, flow),
        }
        return shown | recent_changes(flow)
    table = table_of(request, part.spec, rows)
    if part.spec is TOPICS:
        mark_effects(flow, table.page)
    filters = [
        filter_of(field, "State" if field.endswith("state") else "Kind", values, table.chosen)
        for field, values in part.spec.filters.items()
    ]
    below = part.below(request, flow) if part.below else {}
    return {"table": table, "filters": filters, **below}


def settings_of(flow: Flow) -> list[dict[str, Any]]:
    """Every effective setting: the given ones first, then the defaults."""
    given = [
        {
            "key": key,
            "value": value,
            "given": True,
            "meaning": KEYS[key].meaning if key in KEYS else "Tuning of a Kafka client.",
        }
        for key, value in sorted(flow.properties.items())
    ]
    rest = [
        {
            "key": key.name,
            "value": key.default or "–",  # noqa: RUF001
            "given": False,
            "meaning": key.meaning,
        }
        for key in KEYS.values()
        if key.name not in flow.properties
    ]
    return given + rest


def commands_of(request: HttpRequest, flow: Flow) -> list[dict[str, str]]:
    path = f"flows/{flow.pk}/"
    acts = ("start", "pause", "resume", "stop", "restart")
    return [
        curl(request, "Read this flow", "GET", path),
        curl(request, "Its partitions", "GET", f"{path}partitions/"),
        curl(request, "Change its settings", "PATCH", path, {"properties": flow.properties}),
        *(curl(request, act.capitalize(), "POST", f"{path}{act}/") for act in acts),
    ]


@require_safe
@needs(Right.VIEW)
def explain(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Each rule, in order, with its verdict on a topic or group name; the name need not exist."""
    flow = get_object_or_404(Flow.objects.select_related("source", "target"), pk=pk)
    topic, group = (clean(request.GET.get(name, "")) for name in ("topic", "group"))
    verdict, error = None, ""
    try:
        if topic:
            verdict = explain_topic_of(flow=flow, topic=topic)
        elif group:
            verdict = explain_group_of(flow=flow, group=group, now=timezone.now())
    except UnderstudyError as refusal:
        error = refusal.message
    asked = f"group={group}" if group and not topic else f"topic={topic}"
    context = {
        "flow": flow,
        "topic": topic,
        "group": "" if topic else group,
        "verdict": verdict,
        "error": error,
        "commands": [curl(request, "Ask over REST", "GET", f"flows/{pk}/explain/?{asked}")],
    }
    name = f"{flow.source.alias}-{flow.target.alias}-explain"
    if file := whole_file(request, context, EXPLANATION, name):
        return file
    return render_page(request, "mirrors/flows/explain.html", context, section="flows")

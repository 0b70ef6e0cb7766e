"""Pages of alerts, rules, channels, silences and deliveries that were given up."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from mirrors.domain.access.rights import Right
from mirrors.models import Flow, needs
from mirrors.models.access.grants import seen
from mirrors.views.flows.tabs import places
from mirrors.views.page import attempt, curl, filter_of, render_page
from mirrors.views.tables import export, file_of, table_of
from monitoring import tasks
from monitoring.alerts import actions, evaluation, links
from monitoring.channels import delivery
from monitoring.lists import ALERTS, CHANNELS, DELIVERIES, RULES, SILENCES
from monitoring.models import (
    Alert,
    AlertRule,
    AlertState,
    Channel,
    Delivery,
    DeliveryState,
    Severity,
    Silence,
)

_PENDING = frozenset({DeliveryState.QUEUED, DeliveryState.SENDING})
HOURS = (1, 4, 24, 72)
# Pages of the menu that runbooks name.
_NAMED_PAGES = {
    "Clusters": "clusters",
    "Compare": "comparisons",
    "Component health": "overview",
    "Costs": "costs",
    "Runners": "runners",
}
# CSS state of each severity.
_TONES = {"critical": "critical", "warning": "attention", "info": "unknown"}


@require_safe
@needs(Right.VIEW)
def list_alerts(request: HttpRequest) -> HttpResponseBase:
    rows = Alert.objects.exclude(state=AlertState.PENDING).select_related("rule", "flow")
    if download := export(request, ALERTS, rows, "alerts"):
        return download
    now = timezone.now()
    table = table_of(request, ALERTS, rows)
    silences = list(Silence.objects.filter(starts_at__lte=now, ends_at__gt=now))
    for alert in table.page:
        alert.tone = "good" if alert.state == "resolved" else _TONES[alert.severity]
        alert.silenced = alert.state == "firing" and evaluation.is_silenced(alert, silences)
        alert.page, alert.runbook = links.page_of(alert), links.runbook_of(alert)
    context = {
        "table": table,
        "filters": [
            filter_of("state", "State", ALERTS.filters["state"], table.chosen),
            filter_of("severity", "Severity", Severity.values, table.chosen),
        ],
        "commands": [curl(request, "List firing alerts", "GET", "alerts/?state=firing")],
    }
    return render_page(request, "monitoring/alerts/list.html", context, section="alerts", every=5)


@require_POST
@needs(Right.OPERATE)
def acknowledge(request: HttpRequest, pk: int) -> HttpResponse:
    alert = get_object_or_404(Alert, pk=pk)
    alert = actions.acknowledge(alert=alert, who=request.user.get_username())
    if alert.acknowledged_by:
        messages.success(request, f"{alert} is acknowledged by {alert.acknowledged_by}.")
    return redirect("alerts")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.OPERATE)
def silence(request: HttpRequest, pk: int) -> HttpResponse:
    """GET shows the form; POST silences the rule for the flow."""
    # Without its rule, the silence would cover every rule.
    ruled = Alert.objects.filter(rule__isnull=False).select_related("flow", "rule")
    alert = get_object_or_404(ruled, pk=pk)
    if request.method == "POST":
        given = request.POST.get("hours", "")
        hours = next((one for one in HOURS if str(one) == given), HOURS[0])
        until, who = timezone.now() + timedelta(hours=hours), request.user.get_username()
        reason = request.POST.get("reason", "").replace("\x00", "")
        attempt(
            request,
            lambda: actions.silence_alert(alert=alert, until=until, who=who, reason=reason),
            f"{alert} is silent for {hours} h.",
        )
        return redirect("alerts")
    context = {"alert": alert, "hours": HOURS}
    return render_page(request, "monitoring/alerts/silence.html", context, section="alerts")


@require_POST
@needs(Right.OPERATE)
def end_silence(request: HttpRequest, pk: int) -> HttpResponse:
    who = request.user.get_username()
    actions.end_silence(silence=get_object_or_404(Silence, pk=pk), now=timezone.now(), who=who)
    messages.success(request, "The silence is ended.")
    return redirect("alert-rules")


LISTS = {"rules": RULES, "channels": CHANNELS, "silences": SILENCES, "dead": DELIVERIES}


@require_safe
@needs(Right.VIEW)
def show_rules(request: HttpRequest) -> HttpResponseBase:
    """Rules, channels, silences, failed deliveries, and the REST calls that change them."""
    now = timezone.now()
    context: dict[str, Any] = {
        "rules": AlertRule.objects.select_related("flow__source", "flow__target").order_by(
            F("flow").asc(nulls_first=True), "name"
        ),
        "now": now,
        "channels": delivery.with_last_delivery(seen(Channel.objects.all())),
        "attempts": delivery.ATTEMPTS,
        "silences": Silence.objects.filter(ends_at__gt=now).select_related(
            "rule", "cluster", "runner", "flow__source", "flow__target"
        ),
        "dead": delivery.unresolved().select_related("channel", "alert"),
        "commands": _commands(request),
    }
    if file := file_of(request, context, LISTS):
        return file
    context["dead"] = context["dead"][:20]
    every = 1 if any(_is_pending_test(one) for one in context["channels"]) else 5
    return render_page(
        request, "monitoring/alerts/rules.html", context, section="alerts", every=every
    )


def _is_pending_test(channel: Channel) -> bool:
    last = channel.last
    return last is not None and last.what == delivery.TEST and last.state in _PENDING


@require_safe
@needs(Right.VIEW)
def show_runbook(request: HttpRequest, kind: str) -> HttpResponse:
    """The built-in runbook of a kind of rule."""
    title, text = links.read_runbook(kind)
    given = request.GET.get("flow", "")
    rows = Flow.objects.select_related("source", "target")
    number = int(given) if given.isdecimal() and len(given) < 19 else 0
    flow = rows.filter(pk=number).first()
    context = {"title": title, "text": _linked(text, flow), "flow": flow}
    return render_page(request, "monitoring/alerts/runbook.html", context, section="alerts")


def _linked(text: SafeString, flow: Flow | None) -> SafeString:
    """Names of pages in a runbook become links; those of a flow's pages, with a flow."""
    found = {name: reverse(page) for name, page in _NAMED_PAGES.items()}
    html = str(text)
    if flow is not None:
        found |= places(flow.pk)
        html = re.sub(r'(href="\.\./\w+/)"', rf'\1?flow={flow.pk}"', html)
    for name, address in found.items():
        link = format_html('<a href="{}">{}</a>', address, name)
        html = html.replace(format_html("<em>{}</em>", name), link)
    return mark_safe(html)  # noqa: S308


@require_POST
@needs(Right.OPERATE)
def test_channel(request: HttpRequest, pk: int) -> HttpResponse:
    channel = get_object_or_404(Channel, pk=pk)
    test = actions.request_test(channel=channel, now=timezone.now())
    tasks.send_one.delay_on_commit(test.pk)
    messages.success(request, f"Testing {channel}… The outcome appears in its row within 20 s.")
    return redirect("alert-rules")


@require_POST
@needs(Right.OPERATE)
def retry_delivery(request: HttpRequest, pk: int) -> HttpResponse:
    message = get_object_or_404(Delivery, pk=pk)
    if actions.retry(delivery=message, now=timezone.now()):
        tasks.send_one.delay_on_commit(message.pk)
        messages.success(request, f"The message to {message.channel} is queued again.")
    return redirect("alert-rules")


def _commands(request: HttpRequest) -> list[dict[str, str]]:
    slack = {
        "name": "on-call",
        "kind": "slack",
        "target": "env:UNDERSTUDY_NOTIFY_SLACK",
    }
    rule = {
        "name": "Payments behind",
        "kind": "time_lag",
        "flow": 1,
        "threshold": 10,
        "for_seconds": 30,
        "severity": "critical",
    }
    return [
        curl(request, "Add a channel", "POST", "channels/", slack),
        curl(request, "Send a test", "POST", "channels/1/test/"),
        curl(request, "Add a rule for one flow", "POST", "alert-rules/", rule),
        curl(request, "Turn a rule off", "PATCH", "alert-rules/1/", {"enabled": False}),
    ]

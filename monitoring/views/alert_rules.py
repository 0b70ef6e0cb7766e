"""Forms of alert rules, channels and silences: add, edit, delete."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from mirrors.domain.access.rights import Right
from mirrors.forms.base import SettingsForm
from mirrors.models import needs
from mirrors.models.access.grants import demand_here
from mirrors.views.page import render_page
from monitoring.alerts import actions
from monitoring.forms import ChannelForm, RuleForm, SilenceForm
from monitoring.models import AlertRule, Channel, Silence

_METHODS = ["GET", "HEAD", "POST"]


@require_http_methods(_METHODS)
@needs(Right.EDIT)
def add_rule(request: HttpRequest) -> HttpResponse:
    return _edit(request, RuleForm(request.POST or None), AlertRule(), "Add rule")


@require_http_methods(_METHODS)
@needs(Right.EDIT)
def edit_rule(request: HttpRequest, pk: int) -> HttpResponse:
    rule = get_object_or_404(AlertRule, pk=pk)
    form = RuleForm(request.POST or None, rule=rule)
    return _edit(request, form, rule, f"Edit {rule}", reverse("alert-rule-delete", args=[pk]))


@require_http_methods(_METHODS)
@needs(Right.EDIT)
def delete_rule(request: HttpRequest, pk: int) -> HttpResponse:
    rule = get_object_or_404(AlertRule, pk=pk)
    firing = rule.alerts.filter(state="firing").count()
    sentences = [
        f"Its condition: {rule.asks}. The rule no longer sends messages about it.",
        f"{firing} of its alerts are firing; they are resolved, and their channels are notified."
        if firing
        else "None of its alerts is firing. Resolved alerts are kept.",
        "To suspend it, turn it off instead.",
    ]
    return _delete(request, rule, sentences)


@require_http_methods(_METHODS)
@needs(Right.ADMINISTER)
def add_channel(request: HttpRequest) -> HttpResponse:
    return _edit(request, ChannelForm(request.POST or None), Channel(), "Add channel")


@require_http_methods(_METHODS)
@needs(Right.ADMINISTER)
def edit_channel(request: HttpRequest, pk: int) -> HttpResponse:
    channel = get_object_or_404(Channel, pk=pk)
    form = ChannelForm(request.POST or None, channel=channel)
    gone = reverse("channel-delete", args=[pk])
    return _edit(request, form, channel, f"Edit {channel}", gone)


@require_http_methods(_METHODS)
@needs(Right.ADMINISTER)
def delete_channel(request: HttpRequest, pk: int) -> HttpResponse:
    channel = get_object_or_404(Channel, pk=pk)
    waiting = channel.deliveries.filter(state__in=["queued", "sending"]).count()
    only = [str(rule) for rule in channel.rules.all()]
    sentences = [
        f"{waiting} queued messages are never sent." if waiting else "No message is queued for it.",
        f"Used by {', '.join(only)}. A rule without any other channel then uses every channel."
        if only
        else "No rule uses it.",
    ]
    return _delete(request, channel, sentences)


@require_http_methods(_METHODS)
@needs(Right.OPERATE)
def add_silence(request: HttpRequest) -> HttpResponse:
    form = SilenceForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        demand_here(Silence(**form.cleaned_data))
        silence = actions.add_silence(**form.cleaned_data, who=request.user.get_username())
        messages.success(
            request, f"No message is sent until {silence.ends_at:%d %b %Y, %H:%M} UTC."
        )
        return redirect("alert-rules")
    return _form_page(
        request, form, "Plan a silence", "monitoring/alerts/silence_form.html", None, ""
    )


def _edit(
    request: HttpRequest,
    form: SettingsForm,
    row: AlertRule | Channel,
    title: str,
    gone: str = "",
) -> HttpResponse:
    if request.method == "POST" and form.is_valid():
        _save(form, row, request.user.get_username())
        messages.success(request, f"{row} is saved.")
        return redirect("alert-rules")
    kind = "rule" if isinstance(row, AlertRule) else "channel"
    known = row if row.pk else None
    return _form_page(request, form, title, f"monitoring/alerts/{kind}_form.html", known, gone)


def _save(form: SettingsForm, row: AlertRule | Channel, who: str) -> None:
    what = "edited" if row.pk else "created"
    asked: dict[str, Any] = dict(form.cleaned_data)
    channels = asked.pop("channels", None)
    with transaction.atomic():
        for name, value in asked.items():
            setattr(row, name, value)
        row.save()
        if isinstance(row, AlertRule):
            row.channels.set(channels or [])
        actions.record_change(row, what=what, who=who)


def _form_page(
    request: HttpRequest,
    form: SettingsForm,
    title: str,
    template: str,
    row: Model | None,
    gone: str,
) -> HttpResponse:
    form.mark_fields()
    status = 422 if form.errors else 200
    context = {"form": form, "title": title, "row": row, "gone": gone}
    return render_page(request, template, context, section="alerts", status=status)


def _delete(request: HttpRequest, row: Model, sentences: list[str]) -> HttpResponse:
    """GET shows the consequences; POST deletes the row."""
    if request.method == "POST":
        with transaction.atomic():
            actions.record_change(
                row,
                what="deleted",
                who=request.user.get_username(),
                why=request.POST.get("reason", "")[:500],
            )
            row.delete()
        messages.success(request, f"{row} is deleted.")
        return redirect("alert-rules")
    context = {
        "title": f"Remove {row}",
        "sentences": sentences,
        "action": request.path,
        "verb": "Remove",
        "back": reverse("alert-rules"),
        "asks_reason": True,
    }
    return render_page(request, "confirm.html", context, section="alerts")

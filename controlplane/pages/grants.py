"""The page of grants: roles on everything, a cluster, a flow or a label."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_POST

from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.forms.base import SettingsForm, text_field
from mirrors.forms.drills import FlowChoice
from mirrors.lists.people import GRANTS
from mirrors.models import AccessGrant, Cluster, Flow, needs
from mirrors.models.access.grants import ROLE_CHOICES, SCOPE_CHOICES
from mirrors.services.access import grants as services
from mirrors.views.page import attempt, curl, render_page
from mirrors.views.tables import export, table_of


class GrantForm(SettingsForm):
    rest = ""
    user = forms.ModelChoiceField(
        queryset=User.objects.none(), label="Person", required=False, empty_label="none"
    )
    group = text_field("Or group of the sign-in", mono=False, max_length=255)
    role = forms.ChoiceField(label="Role", choices=ROLE_CHOICES)
    scope = forms.ChoiceField(label="On", choices=SCOPE_CHOICES)
    cluster = forms.ModelChoiceField(
        queryset=Cluster.objects.none(), label="Cluster", required=False, empty_label="none"
    )
    flow = FlowChoice(
        queryset=Flow.objects.none(), label="Flow", required=False, empty_label="none"
    )
    label = text_field("Label", max_length=63)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        flows = Flow.objects.select_related("source", "target").order_by("pk")
        rows = {"user": User.objects.order_by("username"), "cluster": Cluster.objects.all()}
        for name, found in {**rows, "flow": flows}.items():
            self.fields[name].queryset = found  # type: ignore[attr-defined]
        self.fields["group"].help_text = "As the identity provider or the proxy names it."
        self.fields[
            "cluster"
        ].help_text = (
            "One cluster shows its flows. To run or change a flow, grant both of its clusters."
        )
        self.fields["label"].help_text = "Labels are on the settings tab of each flow."


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def show_grants(request: HttpRequest) -> HttpResponseBase:
    form = GrantForm(request.POST or None, initial={"user": request.GET.get("person", "")})
    if request.method == "POST" and form.is_valid():
        try:
            row = services.give_grant(**form.cleaned_data, who=request.user.get_username())
        except InvalidSettings as error:
            form.refuse(error)
        except UnderstudyError as error:
            form.add_error(None, error.message)
        else:
            messages.success(request, f"{row.user or row.group} now is {row}.")
            return redirect("grants")
    form.mark_fields()
    rows = AccessGrant.objects.select_related("user", "cluster", "flow__source", "flow__target")
    if download := export(request, GRANTS, rows, "grants"):
        return download
    body = {"username": "…", "role": "operator", "scope": "label", "label": "…"}
    context = {
        "form": form,
        "table": table_of(request, GRANTS, rows),
        "commands": [
            curl(request, "Read them over REST", "GET", "grants/"),
            curl(request, "Give one", "POST", "grants/", body),
        ],
    }
    status = 422 if form.errors else 200
    return render_page(
        request, "controlplane/grants.html", context, section="people", status=status
    )


@require_POST
@needs(Right.ADMINISTER)
def take_grant(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(AccessGrant, pk=pk)
    attempt(
        request,
        lambda: services.take_grant(grant=row, who=request.user.get_username()),
        "The grant is taken.",
    )
    return redirect("grants")

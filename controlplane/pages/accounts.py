"""Pages of API tokens, and of users and their roles."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_POST
from knox.models import AuthToken

from mirrors.forms.base import SettingsForm, text_field
from mirrors.lists.columns import Column, ListSpec, in_files, on_page
from mirrors.models import Role, needs
from mirrors.services.users import ensure_person
from mirrors.views.page import render_page
from mirrors.views.tables import whole_file

TOKENS = ListSpec(
    "tokens",
    rows="tokens",
    columns=(
        Column("start", "Token", field="key"),
        Column("created", "Created"),
        Column("expiry", "Valid until"),
        on_page("Revoke", hidden=True),
    ),
)
PEOPLE = ListSpec(
    "people",
    rows="people",
    columns=(
        Column("username", "Name"),
        Column("role_word", "Role"),
        *in_files("is_superuser"),
        Column("is_active", "Account"),
        Column("last_login", "Last sign-in"),
    ),
)
LIFETIMES = (1, 7, 30, 90, 365)
ROLES = {role.word: role for role in Role if role is not Role.NONE}


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.VIEWER)
def tokens(request: HttpRequest) -> HttpResponseBase:
    """Only the response to its creation contains a token; just its hash is stored."""
    fresh = ""
    if request.method == "POST":
        given = request.POST.get("days", "")
        days = int(given) if given in map(str, LIFETIMES) else 90
        _, fresh = AuthToken.objects.create(request.user, expiry=timedelta(days=days))
    own: list[Any] = list(AuthToken.objects.filter(user=request.user).order_by("-created"))
    for token in own:
        token.start = token.token_key[:8]
    context = {
        "tokens": own,
        "fresh": fresh,
        "lifetimes": LIFETIMES,
        "root": request.build_absolute_uri("/"),
    }
    if file := whole_file(request, context, TOKENS, "tokens"):
        return file
    return render_page(request, "controlplane/tokens.html", context, section="tokens")


@require_POST
@needs(Role.VIEWER)
def revoke_token(request: HttpRequest, pk: str) -> HttpResponse:
    token = get_object_or_404(AuthToken, pk=pk, user=request.user)
    token.delete()
    messages.success(request, f"The token {token.token_key[:8]}… is revoked.")
    return redirect("tokens")


class PersonForm(SettingsForm):
    rest = ""
    username = text_field("Name", mono=False, required=True, max_length=150)
    role = forms.ChoiceField(
        label="Role", choices=[(word, word) for word in ROLES], initial="viewer"
    )
    password = forms.CharField(
        label="First password",
        max_length=500,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
        help_text="Eight characters or more. The user can change it in the user menu.",
    )

    def clean_username(self) -> str:
        name = User.normalize_username(self.cleaned_data["username"])
        User.username_validator(name)
        if User.objects.filter(username__iexact=name).exists():
            raise forms.ValidationError(f"A user {name} already exists.")
        return name

    def clean_password(self) -> str:
        validate_password(self.cleaned_data["password"])
        return str(self.cleaned_data["password"])


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.ADMIN)
def people(request: HttpRequest) -> HttpResponseBase:
    form = PersonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        facts = form.cleaned_data
        person = ensure_person(
            username=facts["username"], password=facts["password"], role=ROLES[facts["role"]]
        )
        messages.success(request, f"{person.username} can sign in as {facts['role']}.")
        return redirect("people")
    form.mark_fields()
    users: list[Any] = list(User.objects.prefetch_related("groups").order_by("username"))
    for person in users:
        person.role_word = _role_word(person)
    context = {"people": users, "roles": ROLES, "form": form}
    if file := whole_file(request, context, PEOPLE, "people"):
        return file
    status = 422 if form.errors else 200
    return render_page(
        request, "controlplane/people.html", context, section="people", status=status
    )


def _role_word(person: User) -> str:
    """Like `role_of`, from prefetched groups."""
    names = {group.name for group in person.groups.all()}
    return max((role for role in Role if role.word in names), default=Role.NONE).word


@require_POST
@needs(Role.ADMIN)
def set_role(request: HttpRequest, pk: int) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    word = request.POST.get("role", "")
    if word not in ROLES:
        messages.error(request, f"{word[:40]} is not a role. Nothing was changed.")
    elif person == request.user or person.is_superuser:
        messages.error(request, "You cannot change your own role or that of a superuser.")
    else:
        ensure_person(username=person.username, password=None, role=ROLES[word])
        messages.success(request, f"{person.username} now has the role {word}.")
    return redirect("people")

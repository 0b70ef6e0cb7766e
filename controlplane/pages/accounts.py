"""Pages of one's own API tokens, and of people: their roles, sessions and tokens."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from knox.models import AuthToken

from controlplane.web.middleware import ZONE
from mirrors.domain.access.rights import Right
from mirrors.domain.audit.actors import name_refusal
from mirrors.domain.errors import UnderstudyError
from mirrors.forms.base import SettingsForm, text_field
from mirrors.lists.people import PEOPLE, TOKENS
from mirrors.models import ExtraRole, PersonSettings, Role, Scope, needs, role_in
from mirrors.services import one_time_codes, users
from mirrors.views.page import attempt, curl, render_page
from mirrors.views.tables import clean, whole_file
from mirrors.views.time_zone import zone_names

LIFETIMES = (1, 7, 30, 90, 365)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.VIEW)
def tokens(request: HttpRequest) -> HttpResponseBase:
    """Only the response to its creation contains a token; just its hash is stored."""
    fresh = ""
    if request.method == "POST":
        given = request.POST.get("days", "")
        days = int(given) if given in map(str, LIFETIMES) else 90
        scope = request.POST.get("scope", "")
        fresh = users.create_token(
            username=request.user.get_username(),
            days=days,
            scope=scope if scope in Scope.values else Scope.READ,
            name=clean(request.POST.get("name", "")),
        )
    context = {
        "tokens": users.tokens_of(User.objects.get(pk=str(request.user.pk))),
        "scopes": Scope.values,
        "fresh": fresh,
        "lifetimes": LIFETIMES,
        "root": request.build_absolute_uri("/"),
    }
    if file := whole_file(request, context, TOKENS, "tokens"):
        return file
    return render_page(request, "controlplane/tokens.html", context, section="tokens")


@require_POST
@needs(Right.VIEW)
def revoke_token(request: HttpRequest, pk: str) -> HttpResponse:
    token = get_object_or_404(AuthToken, pk=pk, user=request.user)
    token.delete()
    messages.success(request, f"The token {token.token_key[:8]}… is revoked.")
    return redirect("tokens")


# --- people, for admins ---------------------------------------------------------------------------

ROLES = {role.word: role for role in Role}


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
        help_text="Twelve characters or more. The user can change it in the user menu.",
    )

    def clean_username(self) -> str:
        name = User.normalize_username(self.cleaned_data["username"])
        User.username_validator(name)
        if refusal := name_refusal(name):
            raise forms.ValidationError(refusal)
        if User.objects.filter(username__iexact=name).exists():
            raise forms.ValidationError(f"A user {name} already exists.")
        return name

    def clean_password(self) -> str:
        name = self.cleaned_data.get("username", "")
        validate_password(self.cleaned_data["password"], User(username=name))
        return str(self.cleaned_data["password"])


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ADMINISTER)
def people(request: HttpRequest) -> HttpResponseBase:
    form = PersonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        facts = form.cleaned_data
        person = users.ensure_person(
            username=facts["username"], password=facts["password"], role=ROLES[facts["role"]]
        )
        messages.success(request, f"{person.username} can sign in as {facts['role']}.")
        return redirect("people")
    form.mark_fields()
    rows = User.objects.prefetch_related("groups").order_by("username")
    context = {"people": [_marked(person) for person in rows], "form": form}
    if file := whole_file(request, context, PEOPLE, "people"):
        return file
    status = 422 if form.errors else 200
    return render_page(
        request, "controlplane/people.html", context, section="people", status=status
    )


def _marked(person: Any) -> Any:
    """Set what the list shows, from prefetched groups."""
    names = {group.name for group in person.groups.all()}
    person.role_word = (Role.ADMIN if person.is_superuser else role_in(names)).word
    person.held = sorted(names & set(ExtraRole))
    person.extras = ", ".join(person.held)
    return person


@require_safe
@needs(Right.ADMINISTER)
def person(request: HttpRequest, pk: int) -> HttpResponseBase:
    """One account: roles, state, tokens."""
    row = _marked(get_object_or_404(User.objects.prefetch_related("groups"), pk=pk))
    context = {
        "person": row,
        "locked": users.is_locked(row),
        "has_codes": one_time_codes.is_on(row),
        "tokens": users.tokens_of(row),
        "roles": ROLES,
        "extras": list(ExtraRole),
        "commands": [
            curl(request, "Read it over REST", "GET", f"people/{pk}/"),
            curl(request, "Deactivate it", "PATCH", f"people/{pk}/", {"active": False}),
            curl(request, "End sessions and tokens", "POST", f"people/{pk}/end-access/"),
        ],
    }
    if file := whole_file(request, context, TOKENS, f"tokens-{row.username}"):
        return file
    return render_page(request, "controlplane/person.html", context, section="people")


class TimeZoneForm(SettingsForm):
    rest = ""
    zone = forms.ChoiceField(
        label="Time zone of the pages",
        choices=lambda: [(name, name.replace("_", " ")) for name in zone_names()],
        help_text="Files, the REST API and the fields of forms stay in UTC.",
    )


@require_http_methods(["GET", "HEAD", "POST"])
@needs(None)
def time_zone(request: HttpRequest) -> HttpResponse:
    """The zone in which this person's pages show times; other sessions have it from their next
    sign-in on.
    """
    chosen = str(request.session.get(ZONE, "UTC"))
    form = TimeZoneForm(request.POST or None, initial={"zone": chosen})
    if request.method == "POST" and form.is_valid():
        zone = form.cleaned_data["zone"]
        PersonSettings.objects.update_or_create(
            user_id=cast(int, request.user.pk), defaults={"zone": zone}
        )
        request.session[ZONE] = zone
        messages.success(request, f"Pages show times in {zone}.")
        return redirect("time-zone")
    form.mark_fields()
    context = {"form": form, "now": timezone.now(), "zone": chosen}
    status = 422 if form.errors else 200
    return render_page(
        request, "controlplane/time_zone.html", context, section="time zone", status=status
    )


@require_POST
@needs(Right.ADMINISTER)
def set_role(request: HttpRequest, pk: int) -> HttpResponse:
    """Give exactly the role and further roles of the form."""
    row = get_object_or_404(User, pk=pk)
    word = request.POST.get("role", "")
    if word not in ROLES:
        messages.error(request, f"{word[:40]} is not a role. Nothing was changed.")
        return redirect("person", pk=pk)
    extras = request.POST.getlist("extras")
    by = User.objects.get(pk=str(request.user.pk))
    attempt(
        request,
        lambda: users.set_roles(user=row, role=ROLES[word], extras=extras, by=by),
        f"{row.username} now has the role {', '.join([word, *sorted(extras)])}.",
    )
    return redirect("person", pk=pk)


@require_POST
@needs(Right.ADMINISTER)
def change_access(request: HttpRequest, pk: int, change: str) -> HttpResponse:
    """Deactivate, activate or unlock the account, end its access, or remove its codes."""
    row, by = get_object_or_404(User, pk=pk), User.objects.get(pk=str(request.user.pk))
    try:
        if change == "unlock":
            users.unlock(user=row)
            done = f"Failed sign-ins of {row.username} are forgotten."
        elif change == "remove-codes":
            one_time_codes.remove(row)
            done = f"{row.username} signs in without one-time codes."
        elif change == "end":
            sessions, tokens = users.end_access(user=row)
            done = f"{row.username}: {sessions} sessions and {tokens} tokens ended."
        else:
            users.set_active(user=row, active=change == "activate", by=by)
            done = f"{row.username} is {change}d."
        messages.success(request, done)
    except UnderstudyError as error:
        messages.error(request, error.message)
    # Who ends their own sessions has to sign in again.
    return redirect("person", pk=pk)


@require_POST
@needs(Right.ADMINISTER)
def revoke_token_of(request: HttpRequest, pk: int, key: str) -> HttpResponse:
    token = get_object_or_404(AuthToken, pk=key, user=pk)
    token.delete()
    messages.success(request, f"The token {token.token_key[:8]}… is revoked.")
    return redirect("person", pk=pk)

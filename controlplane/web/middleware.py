"""Middleware: the id of a request, and the role that its view requires."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import Resolver404, resolve

from controlplane import redaction
from mirrors.api.base import id_of_flow
from mirrors.domain.access.addresses import object_of
from mirrors.domain.access.rights import Right
from mirrors.models import PersonSettings, Role, role_of
from mirrors.models.access.grants import Access, access_of, limit_request, own_request
from mirrors.services.access.gate import check, subject_of
from mirrors.views.time_zone import times_in

Respond = Callable[[HttpRequest], HttpResponse]
# The person's time zone in the session.
ZONE = "zone"
_OUR_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class RequestIdMiddleware:
    """Gives each request a reference, which log lines and error messages contain."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        reference = given if _OUR_ID.fullmatch(given) else secrets.token_hex(6)
        request.reference = reference  # type: ignore[attr-defined]
        token = redaction.reference.set(reference)
        try:
            response = self.get_response(request)
        finally:
            redaction.reference.reset(token)
        response["X-Request-ID"] = reference
        return response


class RoleMiddleware:
    """Denies by default: without a mark on the view, viewers may read and admins may write.

    REST views check rights themselves (`RolePermission`). Public pages have no check.
    """

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with own_request():
            return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: object, kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        reading = request.method in _SAFE
        limit_request(request.user, Right.VIEW, reading=reading)
        if not getattr(view, "login_required", True):
            return None
        inner = getattr(view, "view_class", None)
        marked = getattr(view, "rights", None) or getattr(inner, "rights", None)
        read, write = marked or (Right.VIEW, Right.ADMINISTER)
        demanded = read if reading else write
        if callable(demanded):
            demanded = demanded(kwargs)
        if demanded is not None:
            route = request.resolver_match.route if request.resolver_match else ""
            check(request.user, demanded, route, kwargs, reading=reading)
        return None


class FlowNameMiddleware:
    """Lets addresses of REST name a flow by its name: `flows/primary->backup/`.

    The view gets the id, or 0, which no flow has: it checks the person before it says so.
    """

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: object, kwargs: dict[str, Any]
    ) -> None:
        for key in ("flow_id", "pk"):
            name = kwargs.get(key)
            if isinstance(name, str) and "->" in name and request.path.startswith("/api/"):
                kwargs[key] = str(id_of_flow(name))


class VerbAddressMiddleware:
    """Redirects a GET of an address that only acts, such as `…/test/`, to the page above it.

    A person gets there by the browser's history, or by signing in again after a button.
    Nothing is carried out. REST keeps its 405.
    """

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        verb = response.status_code == 405 and request.method in ("GET", "HEAD")
        if not verb or "GET" in response.get("Allow", "") or request.path.startswith("/api/"):
            return response
        messages.info(request, "Nothing was changed: this action needs its button.")
        return redirect(_page_above(request.path))


def _page_above(path: str) -> str:
    """The nearest shorter address that exists; at last the overview."""
    parts = path.strip("/").split("/")
    for length in range(len(parts) - 1, 0, -1):
        above = "/" + "/".join(parts[:length]) + "/"
        try:
            resolve(above)
        except Resolver404:
            continue
        return above
    return "/"


class TimeZoneMiddleware:
    """Pages show times in the zone that the person chose; the session has it since the sign-in."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with times_in(str(request.session.get(ZONE, "UTC"))):
            return self.get_response(request)


def remember_zone(request: HttpRequest | None, user: Any, **kwargs: object) -> None:
    """At sign-in, copy the person's zone to the session, so that no page has to read it."""
    if request is not None and hasattr(request, "session"):
        row = PersonSettings.objects.filter(user=user).first()
        request.session[ZONE] = row.zone if row else "UTC"


def role(request: HttpRequest) -> dict[str, Any]:
    """For templates: permissions of the user (`can.operate`) and the reference of the request."""
    access = access_of(request.user) if hasattr(request, "user") else None
    can = {right.value: False for right in Right} | {"manage": False}
    if access is not None:
        can = _can(request, access)
    word = role_of(request.user).word if access else Role.NONE.word
    if access is not None and word == Role.NONE.word and access.is_limited:
        word = f"{' and '.join(sorted({grant.role for grant in access.grants}))} of parts"
    return {"role": word, "can": can, "reference": getattr(request, "reference", "")}


def _can(request: HttpRequest, access: Access) -> dict[str, bool]:
    """The rights on what the page is about; on a list, whether there is a row with the right.

    `manage`: to administer everything.
    """
    everywhere = {right.value: access.everywhere(right) for right in Right}
    manage = everywhere[Right.ADMINISTER]
    if all(everywhere.values()) or not access.is_limited:
        return {**everywhere, "manage": manage}
    match = request.resolver_match
    if match is not None and object_of(match.route) is not None:
        subject = subject_of(request.user, match.route, match.kwargs)
        return {right.value: access.may(right, subject)[0] for right in Right} | {"manage": manage}
    somewhere = {right.value: access.somewhere(right) for right in Right}
    return {**somewhere, "administer": manage, "manage": manage}

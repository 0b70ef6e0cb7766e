"""Middleware: the id of a request, and the role that its view requires."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from controlplane import redaction
from mirrors.models import Role, role_of

Respond = Callable[[HttpRequest], HttpResponse]
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
    """Denies by default: without a role on the view, viewers may read and admins may write.

    REST views check roles themselves (`RolePermission`). Public pages have no check.
    """

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: object, kwargs: object
    ) -> HttpResponse | None:
        if not getattr(view, "login_required", True):
            return None
        marked = getattr(view, "role", None)
        if marked is None:
            marked = getattr(getattr(view, "view_class", None), "role", None)
        if marked is None:
            marked = Role.VIEWER if request.method in _SAFE else Role.ADMIN
        demanded = Role(marked)
        if role_of(request.user) < demanded:
            raise PermissionDenied(
                f"This needs the role {demanded.word}; you have "
                f"{role_of(request.user).word}. An admin can assign it on the page People."
            )
        return None


def role(request: HttpRequest) -> dict[str, Any]:
    """For templates: permissions of the user (`can.operate`) and the reference of the request."""
    held = role_of(request.user) if hasattr(request, "user") else Role.NONE
    return {
        "role": held.word,
        "can": {
            "view": held >= Role.VIEWER,
            "operate": held >= Role.OPERATOR,
            "administer": held >= Role.ADMIN,
        },
        "reference": getattr(request, "reference", ""),
    }

"""Who sends a request and from which address; requests that were refused become audit entries."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse

from controlplane.web.outgoing import Outgoing
from mirrors.models.audit.chain import Origin, origin
from mirrors.services.audit.accounts import note_refused, note_request

Respond = Callable[[HttpRequest], HttpResponse]
_LONGEST_CHAIN = 20
# REST that takes a body and computes an answer. If it does change something, it writes an entry.
_QUESTIONS = re.compile(
    r"/api/v1/(exports|offsets/translate|certificates/verify|apply|imports|templates"
    r"|flows/[^/]+/(preview|cost|cost/compression))/?"
)


def address_of(request: HttpRequest) -> str:
    """The address of the client.

    X-Forwarded-For is believed only from UNDERSTUDY_TRUSTED_PROXIES: it is read from its end, and
    the first address that is not a trusted proxy is the client.
    """
    address = _canonical(request.META.get("REMOTE_ADDR", ""))
    proxies = _proxies()
    if not proxies or not _is_trusted(address, proxies):
        return address
    chain = request.headers.get("X-Forwarded-For", "").split(",")[-_LONGEST_CHAIN:]
    for part in reversed(chain):
        found = _canonical(part.strip())
        if not found:
            break
        address = found
        if not _is_trusted(address, proxies):
            break
    return address


def is_from_trusted_proxy(request: HttpRequest) -> bool:
    """Whether one of UNDERSTUDY_TRUSTED_PROXIES itself sent the request."""
    return _is_trusted(_canonical(request.META.get("REMOTE_ADDR", "")), _proxies())


def _canonical(text: str) -> str:
    """An IP address in its usual form; empty for anything else, such as a Unix socket."""
    try:
        found = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return ""
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


def _proxies() -> list[Any]:
    return [
        ipaddress.ip_network(text, strict=False) for text in settings.UNDERSTUDY_TRUSTED_PROXIES
    ]


def _is_trusted(address: str, proxies: list[Any]) -> bool:
    return bool(address) and any(ipaddress.ip_address(address) in network for network in proxies)


class OriginMiddleware:
    """Gives audit entries the origin of their request, and records what wrote no entry.

    - 403 answers to people who are signed in, and tokens that are not valid.
    - A change that succeeded: services write the entry, with what changed; none is forgotten here.
    """

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        source = Origin(
            reference=getattr(request, "reference", ""),
            address=address_of(request),
            actor=lambda: _actor(request),
        )
        token = origin.set(source)
        try:
            response = self.get_response(request)
            _note_person(request)
            if response.status_code in {401, 403}:
                _record_refusal(request, response.status_code)
            elif not source.written and _has_changed(request, response.status_code):
                _record_request(request)
        finally:
            origin.reset(token)
        return response


def _actor(request: HttpRequest) -> tuple[str, str]:
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return "", ""
    # Django REST framework sets `auth` to the token.
    return user.get_username(), str(getattr(getattr(request, "auth", None), "token_key", ""))


def _note_person(request: HttpRequest) -> None:
    """For the server, whose limits count people: who is signed in."""
    connection = request.META.get("gunicorn.socket")
    if isinstance(connection, Outgoing) and _actor(request)[0]:
        connection.person = f"person {request.user.pk}"


def _has_changed(request: HttpRequest, status: int) -> bool:
    """Whether a request of a person succeeded that may change something. Pages then redirect."""
    if request.method in ("GET", "HEAD", "OPTIONS") or not _actor(request)[0]:
        return False
    if request.path.startswith("/api/"):
        return 200 <= status < 300 and not _QUESTIONS.fullmatch(request.path)
    return status in (204, 302, 303)


def _record_request(request: HttpRequest) -> None:
    with contextlib.suppress(DatabaseError):
        name, _ = _actor(request)
        note_request(why=f"{request.method} {request.path}"[:300], who=name)


def _record_refusal(request: HttpRequest, status: int) -> None:
    try:
        name, _ = _actor(request)
        where = f"{request.method} {request.path}"[:300]
        if status == 403 and name:
            note_refused(what="refused", why=where, who=name)
        elif status == 401 and request.headers.get("Authorization"):
            note_refused(what="token refused", why=where)
    except DatabaseError:
        # The answer matters more than its entry.
        return

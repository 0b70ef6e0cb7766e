"""Who sends a request and from which address; requests that were refused become audit entries."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse

from mirrors.models.audit.chain import Origin, origin
from mirrors.services.audit.accounts import note_refused

Respond = Callable[[HttpRequest], HttpResponse]
_LONGEST_CHAIN = 20


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
    """Gives audit entries the origin of their request, and records refused requests.

    Recorded are 403 answers to people who are signed in, and tokens that are not valid.
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
            if response.status_code in {401, 403}:
                _record_refusal(request, response.status_code)
        finally:
            origin.reset(token)
        return response


def _actor(request: HttpRequest) -> tuple[str, str]:
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return "", ""
    # Django REST framework sets `auth` to the token.
    return user.get_username(), str(getattr(getattr(request, "auth", None), "token_key", ""))


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

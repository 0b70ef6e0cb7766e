"""Limits of requests before their bodies are read: size of the body, sign-ins per minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from controlplane.api import errors
from mirrors.models.audit.chain import origin

Respond = Callable[[HttpRequest], HttpResponse]
# Anybody may send these; name and password, or a certificate, need no more.
_OPEN = {"/login/": 64 * 1024, "/api/v1/tokens/": 64 * 1024, "/api/v1/tokens": 64 * 1024}
_SIGN_INS = frozenset(_OPEN)
# They check the password or a code of who is signed in: a stolen session could guess them.
_PROOFS = frozenset({"/account/password/", "/account/one-time-codes/"})
# A request to begin a sign-in at the provider; its session is a row until it expires.
_BEGINS = frozenset({"/oidc/login/"})
_MOST_KEYS = 20_000


class Counter:
    """Counts events by key within a minute, in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minute, self._counts = 0, dict[str, int]()

    def clear(self) -> None:
        with self._lock:
            self._counts.clear()

    def add(self, key: str) -> int:
        """Count one more; returns how many there were in this minute."""
        minute = int(time.monotonic() // 60)
        with self._lock:
            if minute != self._minute or len(self._counts) > _MOST_KEYS:
                self._minute, self._counts = minute, {}
            self._counts[key] = self._counts.get(key, 0) + 1
            return self._counts[key]


sign_ins = Counter()


class LimitsMiddleware:
    """Refuses large bodies (413) and too many sign-ins from one address (429), before both cost.

    A password is checked with a slow hash on purpose, so the check itself must be limited.
    """

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if refused := self._refusal(request):
            return refused
        return self.get_response(request)

    def _refusal(self, request: HttpRequest) -> HttpResponse | None:
        if request.path in _BEGINS:
            return _too_many(request, f"begins {origin.get().network}")
        if request.method in ("GET", "HEAD", "OPTIONS"):
            return None
        most = min(_OPEN.get(request.path, settings.UNDERSTUDY_MAX_BODY), _most())
        if _length(request) > most:
            words = f"The body is larger than {most} bytes."
            return errors.refuse(request, 413, "too_large", words)
        if request.method == "POST" and request.path in _SIGN_INS:
            return _too_many(request, f"address {origin.get().network}")
        if request.method == "POST" and request.path in _PROOFS:
            session = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
            return _too_many(request, f"session {session[:100]}")
        return None


def _too_many(request: HttpRequest, key: str) -> HttpResponse | None:
    """Count one more; the refusal if there were too many in this minute."""
    limit = settings.UNDERSTUDY_LOGINS_PER_MINUTE
    if sign_ins.add(key) <= limit:
        return None
    words = f"More than {limit} attempts in a minute. Wait a minute."
    return errors.refuse(request, 429, "rate_limited", words)


def _most() -> int:
    return int(settings.UNDERSTUDY_MAX_BODY)


def _length(request: HttpRequest) -> int:
    text = request.META.get("CONTENT_LENGTH") or "0"
    return int(text) if text.isascii() and text.isdecimal() else 0


class NameLimit:
    """The first backend: ends a sign-in when its name was tried too often, from any addresses.

    The limit is three times that of an address, so that one address cannot keep a person out.
    It knows no people, so it has no `get_user`: no session may name it as its backend.
    """

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, **_: Any
    ) -> None:
        limit = 3 * settings.UNDERSTUDY_LOGINS_PER_MINUTE
        if username and sign_ins.add(f"name {username.casefold()[:150]}") > limit:
            raise PermissionDenied

"""The regular check of people whom an identity provider knows, and the sign-in behind a proxy."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import auth, messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils import timezone
from rest_framework.exceptions import AuthenticationFailed

from controlplane.api.errors import error_body
from controlplane.single_sign_on import accounts, roles
from controlplane.single_sign_on.roles import SignInRefused
from controlplane.web.request_origin import is_from_trusted_proxy
from mirrors.api.access.authentication import Tokens
from mirrors.models import OidcAccount

Respond = Callable[[HttpRequest], HttpResponse]
ENDED = "The identity provider no longer confirms your account. Sign in again."
PROXY_SESSION = "proxy_login"
log = logging.getLogger(__name__)


class SignInMiddleware:
    """After Django's own: a proxy's header signs in, and a provider's people are checked."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if settings.UNDERSTUDY_PROXY_LOGIN_HEADER:
            _sign_in_by_proxy(request)
        user = request.user
        if isinstance(user, User) and not accounts.may_continue(user, timezone.now()):
            return _refuse(request)
        return self.get_response(request)


class CheckedTokens(Tokens):
    """Tokens of people, which end with the account at the identity provider."""

    def authenticate_credentials(self, token: bytes) -> Any:
        user, found = super().authenticate_credentials(token)
        if not accounts.may_continue(user, timezone.now()):
            raise AuthenticationFailed(ENDED)
        return user, found


def _refuse(request: HttpRequest) -> HttpResponse:
    auth.logout(request)
    if request.path.startswith("/api/"):
        return JsonResponse(
            error_body(request, code="not_authenticated", message=ENDED), status=401
        )
    messages.error(request, ENDED)
    return redirect("login")


def _sign_in_by_proxy(request: HttpRequest) -> None:
    """Sign in whom the trusted proxy names. The header of anybody else is ignored."""
    name = request.headers.get(settings.UNDERSTUDY_PROXY_LOGIN_HEADER, "").strip()
    by_proxy = bool(request.session.get(PROXY_SESSION))
    if not name or not is_from_trusted_proxy(request):
        if by_proxy:
            # Such a session is only as good as the header.
            auth.logout(request)
        return
    if by_proxy and request.user.get_username() != name:
        auth.logout(request)
        by_proxy = False
    try:
        user = _account_of(request, name)
    except SignInRefused as error:
        log.warning("the proxy's person is not signed in: %s", error)
        if by_proxy:
            auth.logout(request)
        return
    if not by_proxy:
        auth.login(request, user, backend="django.contrib.auth.backends.ModelBackend")
        request.session[PROXY_SESSION] = True
    # The roles of this request, not those that were read before.
    request.user = user


def _account_of(request: HttpRequest, name: str) -> User:
    user = User.objects.filter(username=name).first() or roles.create_account(name, "")
    if user.has_usable_password() or OidcAccount.objects.filter(user=user).exists():
        raise SignInRefused(f"{name[:60]} signs in with a password or at the provider.")
    if not user.is_active:
        raise SignInRefused(f"{name[:60]} is deactivated.")
    if settings.UNDERSTUDY_PROXY_GROUPS_HEADER:
        groups = request.headers.get(settings.UNDERSTUDY_PROXY_GROUPS_HEADER, "")
        roles.apply(user, roles.granted(part.strip() for part in groups.split(",")))
    return user

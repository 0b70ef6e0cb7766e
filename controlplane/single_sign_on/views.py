"""Pages of the sign-in at an OpenID provider (mozilla-django-oidc); its back-channel logout."""

from __future__ import annotations

import logging
from typing import Any

import jwt
import requests
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from controlplane.single_sign_on import accounts, provider
from controlplane.single_sign_on.roles import SignInRefused

log = logging.getLogger(__name__)
FAILED = "The sign-in at the identity provider did not succeed. Try again, or ask an admin."


class Backend(OIDCAuthenticationBackend):
    """Verifies the answer of the provider; accounts are found by subject, never by e-mail."""

    get_settings = staticmethod(provider.setting)

    def __init__(self) -> None:
        # Without a provider the other backends are asked; this one needs its addresses.
        if provider.is_configured():
            super().__init__()
        # A session of an earlier configuration is still looked up.
        self.UserModel = get_user_model()
        self._refresh_token = ""

    def authenticate(self, request: HttpRequest | None, **given: Any) -> Any:
        if request is None or "nonce" not in given or not provider.is_configured():
            return None
        try:
            return super().authenticate(request, **given)
        except SignInRefused as error:
            messages.error(request, str(error))
            log.warning("a sign-in at the identity provider is refused: %s", error)
        except (
            *(SuspiciousOperation, provider.Rejected, provider.Unreachable),
            *(requests.RequestException, jwt.PyJWTError, KeyError, TypeError),
        ) as error:
            messages.error(request, FAILED)
            log.warning("a sign-in at the identity provider failed: %r", error)
        return None

    def get_token(self, payload: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = super().get_token(payload)
        self._refresh_token = str(answer.get("refresh_token") or "")
        return answer

    def verify_token(self, token: str, **given: Any) -> dict[str, Any]:
        return provider.checked_claims(super().verify_token(token, **given))

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> Any:
        info = provider.user_info(access_token)
        if info.get("sub") != payload["sub"]:
            raise provider.Rejected("The user info is about somebody else.")
        return accounts.sign_in({**payload, **info}, self._refresh_token, timezone.now())


@method_decorator(login_not_required, name="dispatch")
class SignIn(OIDCAuthenticationRequestView):
    """Sends the person to the provider (authorization code with PKCE, state and nonce)."""

    get_settings = staticmethod(provider.setting)

    def __init__(self, **given: Any) -> None:
        if provider.is_configured():
            try:
                super().__init__(**given)
                self.failure = ""
            except (provider.Rejected, provider.Unreachable) as error:
                log.warning("the identity provider cannot be used: %s", error)
                self.failure = "The identity provider does not respond. Sign in with a password."

    def dispatch(self, request: HttpRequest, *args: Any, **given: Any) -> Any:
        if not provider.is_configured():
            raise Http404
        if self.failure:
            messages.error(request, self.failure)
            return HttpResponseRedirect(reverse("login"))
        return super().dispatch(request, *args, **given)


@method_decorator(login_not_required, name="dispatch")
class Callback(OIDCAuthenticationCallbackView):
    """The provider sends the person here."""

    get_settings = staticmethod(provider.setting)

    @property
    def failure_url(self) -> str:
        return reverse("login")

    def dispatch(self, request: HttpRequest, *args: Any, **given: Any) -> Any:
        if not provider.is_configured():
            raise Http404
        return super().dispatch(request, *args, **given)


class Logout(LogoutView):
    """Ends the session here, and for people of the provider leads to its own logout."""

    def get_success_url(self) -> str:
        if self._of_provider:
            try:
                back = self.request.build_absolute_uri(reverse("login"))
                if found := provider.end_session_url(back):
                    return found
            except (provider.Rejected, provider.Unreachable) as error:
                log.warning("the session at the identity provider stays: %s", error)
        return super().get_success_url()

    def post(self, request: HttpRequest, *args: Any, **given: Any) -> Any:
        user = getattr(request, "user", None)
        known = provider.is_configured() and user is not None and hasattr(user, "oidc")
        self._of_provider = known
        return super().post(request, *args, **given)


@never_cache
@csrf_exempt
@require_POST
@login_not_required
def backchannel_logout(request: HttpRequest) -> HttpResponse:
    """The provider ends the sessions of a person, with a token that it signed."""
    if not provider.is_configured():
        raise Http404
    try:
        accounts.log_out(provider.subject_of_logout(request.POST.get("logout_token", "")))
    except provider.Rejected as error:
        return JsonResponse(
            {"error": "invalid_request", "error_description": str(error)}, status=400
        )
    except provider.Unreachable as error:
        log.warning("a logout of the identity provider cannot be verified: %s", error)
        return JsonResponse({"error": "temporarily_unavailable"}, status=503)
    return HttpResponse()

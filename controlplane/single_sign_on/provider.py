"""Requests to the OpenID provider: discovery, refresh, user info, and checks of its tokens.

Every request has a deadline. `Rejected` is an answer about the person, `Unreachable` is none.
"""

from __future__ import annotations

import time
from typing import Any

import jwt
import requests
from django.conf import settings
from mozilla_django_oidc.utils import import_from_settings

DEADLINE_S = 5.0
_DISCOVERY_S = 300.0
_KEYS_S = 300.0
_BACKCHANNEL_EVENT = "http://schemas.openid.net/event/backchannel-logout"
_LEEWAY_S = 60
_ENDPOINTS = {
    "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
    "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",
    "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
    "OIDC_OP_JWKS_ENDPOINT": "jwks_uri",
}
_kept: dict[str, tuple[float, Any]] = {}


class Rejected(Exception):
    """The provider no longer vouches for the person, or a token is not valid."""


class Unreachable(Exception):
    """The provider does not respond, or not as OpenID Connect demands."""


def is_configured() -> bool:
    return bool(settings.UNDERSTUDY_OIDC_ISSUER)


def setting(name: str, *default: Any) -> Any:
    """A setting of mozilla-django-oidc; addresses come from the provider's discovery document."""
    if name in _ENDPOINTS:
        return discovery()[_ENDPOINTS[name]]
    return import_from_settings(name, *default)


def discovery() -> dict[str, Any]:
    issuer = settings.UNDERSTUDY_OIDC_ISSUER
    url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    document = _cached(url, _DISCOVERY_S)
    if document.get("issuer") != issuer:
        raise Unreachable(
            f"The document at {url} names the issuer {str(document.get('issuer'))[:100]}. Set "
            "UNDERSTUDY_OIDC_ISSUER to exactly that, if it is yours."
        )
    return document


def refresh(token: str) -> dict[str, Any]:
    """New tokens for a refresh token."""
    return _answer(
        "post",
        discovery()["token_endpoint"],
        data={
            "grant_type": "refresh_token",
            "refresh_token": token,
            "client_id": settings.OIDC_RP_CLIENT_ID,
            "client_secret": settings.OIDC_RP_CLIENT_SECRET,
        },
    )


def user_info(access_token: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {access_token}"}
    return _answer("get", discovery()["userinfo_endpoint"], headers=headers)


def checked_claims(payload: dict[str, Any]) -> dict[str, Any]:
    """The claims of an ID token whose signature was verified: issuer, audience, party, subject."""
    client, audience = settings.OIDC_RP_CLIENT_ID, payload.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    party = payload.get("azp", client if len(audiences) == 1 else None)
    if payload.get("iss") != settings.UNDERSTUDY_OIDC_ISSUER:
        raise Rejected("The ID token is of another issuer.")
    if client not in audiences or party != client:
        raise Rejected("The ID token is for another client.")
    if not isinstance(payload.get("sub"), str) or not payload["sub"]:
        raise Rejected("The ID token names no subject.")
    return payload


def subject_of_logout(token: str) -> str:
    """The subject of a back-channel logout token, verified (OpenID Connect Back-Channel Logout)."""
    try:
        header = jwt.get_unverified_header(token)
        keys = jwt.PyJWKSet.from_dict(_cached(discovery()["jwks_uri"], _KEYS_S))
        claims = jwt.decode(
            token,
            keys[header["kid"]].key,
            algorithms=[settings.OIDC_RP_SIGN_ALGO],
            audience=settings.OIDC_RP_CLIENT_ID,
            issuer=settings.UNDERSTUDY_OIDC_ISSUER,
            leeway=_LEEWAY_S,
            options={"require": ["iss", "aud", "iat", "exp", "sub"]},
        )
    except (jwt.PyJWTError, KeyError, TypeError, ValueError) as error:
        raise Rejected(f"The logout token is not valid ({type(error).__name__}).") from None
    events = claims.get("events")
    if not isinstance(events, dict) or _BACKCHANNEL_EVENT not in events or "nonce" in claims:
        raise Rejected("The token is no logout token.")
    return str(claims["sub"])


def end_session_url(back_to: str) -> str | None:
    """Where a person ends the session at the provider; None if it has no such page."""
    address = discovery().get("end_session_endpoint")
    if not address:
        return None
    asked = {"client_id": settings.OIDC_RP_CLIENT_ID, "post_logout_redirect_uri": back_to}
    return str(requests.Request("GET", address, params=asked).prepare().url)


def forget() -> None:
    """Read discovery and keys again at the next use."""
    _kept.clear()


def _cached(url: str, seconds: float) -> Any:
    kept = _kept.get(url)
    if kept is None or time.monotonic() - kept[0] > seconds:
        kept = _kept[url] = (time.monotonic(), _answer("get", url))
    return kept[1]


def _answer(method: str, url: str, **given: Any) -> dict[str, Any]:
    try:
        answer = requests.request(method, url, timeout=DEADLINE_S, allow_redirects=False, **given)
        if answer.status_code in {400, 401, 403}:
            raise Rejected(f"The provider answered {answer.status_code}.")
        answer.raise_for_status()
        body = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise Unreachable(f"The provider does not respond: {type(error).__name__}.") from None
    if not isinstance(body, dict):
        raise Unreachable("The provider's answer is not an object.")
    return body

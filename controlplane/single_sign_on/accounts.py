"""Accounts of people whom the OpenID provider knows: sign-in, the check each 30 s, logout.

The check runs at the first request of a person after 30 s, with a session or with an API token. It
refreshes the person's token and reads the groups. A role that was taken there is gone here. A
person who was disabled there loses sessions and tokens. While the provider does not respond, access
lasts UNDERSTUDY_OIDC_GRACE_MINUTES after the last check: a provider may fail with its data center.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from controlplane.single_sign_on import provider, roles
from controlplane.single_sign_on.roles import SignInRefused
from mirrors.models import OidcAccount
from mirrors.services import users
from mirrors.services.audit.accounts import note_person
from mirrors.services.encryption import decrypt, encrypt

CHECK_EVERY = timedelta(seconds=30)
# Another process that asks gets this time to finish.
ASK_EVERY = timedelta(seconds=10)
log = logging.getLogger(__name__)


def sign_in(claims: dict[str, Any], refresh_token: str, now: datetime) -> User:
    """The account of these verified claims, made at the first sign-in. Raises SignInRefused."""
    if not refresh_token:
        raise SignInRefused(
            "The provider gave no refresh token, so it could not be asked again whether you may "
            "still sign in. Allow refresh tokens for this client there."
        )
    found = roles.granted(_groups(claims))
    if found.is_nothing:
        raise SignInRefused(
            "None of your groups at the provider gives a role here. Ask an admin which group you "
            "need (UNDERSTUDY_GROUP_ROLES)."
        )
    issuer, subject = settings.UNDERSTUDY_OIDC_ISSUER, claims["sub"]
    with transaction.atomic():
        known = OidcAccount.objects.select_related("user").filter(issuer=issuer, subject=subject)
        account = known.select_for_update().first()
        if account is None:
            name = str(claims.get(settings.UNDERSTUDY_OIDC_NAME_CLAIM) or subject)
            user = roles.create_account(name, str(claims.get("email") or ""))
            account = OidcAccount(user=user, issuer=issuer, subject=subject)
        if not account.user.is_active:
            raise SignInRefused("Your account here is deactivated. Ask an admin.")
        roles.apply(account.user, found)
        account.refresh_token = encrypt(refresh_token)
        account.checked_at = account.asked_at = now
        account.save()
    return account.user


def may_continue(user: User, now: datetime) -> bool:
    """Ask the provider if it is time; False ends the access of this request."""
    account = OidcAccount.objects.filter(user=user).first()
    if account is None or not account.is_due(now, CHECK_EVERY):
        return True
    grace = timedelta(minutes=settings.UNDERSTUDY_OIDC_GRACE_MINUTES)
    if not account.claim(now, ASK_EVERY):
        return not account.is_due(now, CHECK_EVERY + max(ASK_EVERY, grace))
    try:
        return _check(account, user, now)
    except provider.Rejected as error:
        _end(user, f"The identity provider no longer confirms the account: {error}")
        return False
    except provider.Unreachable as error:
        log.warning("the identity provider cannot be asked about %s: %s", user.pk, error)
        return not account.is_due(now, CHECK_EVERY + grace)


def log_out(subject: str) -> None:
    """End the sessions of a person who signed out at the provider. Tokens of programs stay."""
    known = OidcAccount.objects.filter(issuer=settings.UNDERSTUDY_OIDC_ISSUER, subject=subject)
    if account := known.select_related("user").first():
        count = users.end_sessions(user=account.user)
        note_person(account.user, what="access ended", why=f"{count} sessions: logout at provider.")


def _check(account: OidcAccount, user: User, now: datetime) -> bool:
    token = decrypt(account.refresh_token)
    if token is None:
        raise provider.Rejected("its token was stored with another key")
    answer = provider.refresh(token)
    claims = provider.user_info(str(answer.get("access_token")))
    if claims.get("sub") != account.subject:
        raise provider.Rejected("the answer is about somebody else")
    found = roles.granted(_groups(claims))
    if found.is_nothing:
        roles.apply(user, found)
        _end(user, "No group at the identity provider gives a role any more.")
        return False
    roles.apply(user, found)
    account.checked_at = now
    account.refresh_token = encrypt(str(answer.get("refresh_token") or token))
    account.save(update_fields=["checked_at", "refresh_token"])
    return True


def _end(user: User, why: str) -> None:
    users.end_access(user=user, note=False)
    note_person(user, what="access ended", why=why[:500])


def _groups(claims: dict[str, Any]) -> list[str]:
    value = claims.get(settings.UNDERSTUDY_OIDC_GROUPS_CLAIM)
    return [str(group) for group in value] if isinstance(value, list) else []

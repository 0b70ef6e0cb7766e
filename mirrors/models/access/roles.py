"""Roles as Django groups: viewer, operator, admin, each with the rights of the one before.

A person may have further roles: approver (approves as a second person) and auditor (reads the audit
log of accounts). Both may read everything, and change nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db import models


class Role(enum.IntEnum):
    """viewer reads; operator runs flows and tests; admin changes clusters, runners and people."""

    NONE = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class ExtraRole(enum.StrEnum):
    """Roles beside the three: an admin has their rights too."""

    APPROVER = "approver"
    AUDITOR = "auditor"


class Scope(models.TextChoices):
    """What a token may do, at most; never more than its owner may.

    - metrics: read /metrics only. read: read as a viewer. operate: act up to an operator.
    - everything: what its owner may; tokens of earlier versions have it.
    """

    METRICS = "metrics"
    READ = "read"
    OPERATE = "operate"
    EVERYTHING = "everything"


_CAPS = {
    Scope.METRICS: Role.NONE,
    Scope.READ: Role.VIEWER,
    Scope.OPERATE: Role.OPERATOR,
    Scope.EVERYTHING: Role.ADMIN,
}


class TokenFacts(models.Model):
    """Beside a token of knox: what it is for, its scope, and its last use."""

    token = models.OneToOneField(
        "knox.AuthToken", on_delete=models.CASCADE, related_name="facts", primary_key=True
    )
    name = models.CharField(max_length=100, blank=True)
    scope = models.CharField(max_length=10, choices=Scope, default=Scope.EVERYTHING)
    last_used_at = models.DateTimeField(null=True)
    last_address = models.CharField(max_length=45, blank=True)

    def __str__(self) -> str:
        return self.name


def limit_to(user: User, scope: str) -> None:
    """Limit this user object, for one request, to the scope of its token."""
    user._scope = Scope(scope)  # type: ignore[attr-defined]
    forget_roles(user)


def scope_of(user: object) -> Scope:
    return getattr(user, "_scope", Scope.EVERYTHING)


def role_of(user: AbstractBaseUser | AnonymousUser) -> Role:
    """The highest role of a person; asked once per request and remembered on the user object."""
    if not isinstance(user, User) or not user.is_active:
        return Role.NONE
    held = Role.ADMIN if user.is_superuser else role_in(group_names(user))
    return min(held, _CAPS[scope_of(user)])


def role_in(names: Collection[str]) -> Role:
    """The highest of the three roles among the names of groups; an extra role can read."""
    known = max((role for role in Role if role.word in names), default=Role.NONE)
    return known or (Role.VIEWER if any(extra in names for extra in ExtraRole) else Role.NONE)


def group_names(user: User) -> frozenset[str]:
    """Names of the Django groups of a person: roles, and others that mean nothing here."""
    known: frozenset[str] | None = getattr(user, "_roles", None)
    if known is None:
        known = frozenset(user.groups.values_list("name", flat=True))
        remember_group_names(user, known)
    return known


def remember_group_names(user: User, names: frozenset[str]) -> None:
    user._roles = names  # type: ignore[attr-defined]


def forget_roles(user: User) -> None:
    """Read the groups of this user object again at the next question."""
    user.__dict__.pop("_roles", None)
    user.__dict__.pop("_access", None)


class PersonSettings(models.Model):
    """One row per user who changed a setting. `zone` is an IANA name; times are shown in it."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="person_settings"
    )
    zone = models.CharField(max_length=64, default="UTC")

    def __str__(self) -> str:
        return f"settings of user {self.user_id}"


# --- how an account signs in beside its password ---


class OidcAccount(models.Model):
    """Links an account to its person at an OpenID provider. The subject never changes or moves.

    - `refresh_token`: encrypted with a key that is derived from UNDERSTUDY_SECRET_KEY.
    - `checked_at`: when the provider last confirmed the person; `asked_at`: the last attempt.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="oidc"
    )
    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255)
    refresh_token = models.TextField()
    checked_at = models.DateTimeField()
    asked_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["issuer", "subject"], name="one account per subject"),
        )

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"

    def is_due(self, now: datetime, every: timedelta) -> bool:
        return now - self.checked_at >= every

    def claim(self, now: datetime, every: timedelta) -> bool:
        """Whether this process asks the provider now; of several at a time one does."""
        rows = OidcAccount.objects.filter(pk=self.pk, asked_at__lte=now - every)
        return bool(rows.update(asked_at=now))


class OneTimeCode(models.Model):
    """The second factor of an account with a password (TOTP, RFC 6238).

    - `secret`: base32, encrypted. `confirmed_at`: null until the person entered a first code.
    - `last_step`: the last time step whose code was used, so that no code is used twice.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="one_time_code"
    )
    secret = models.TextField()
    confirmed_at = models.DateTimeField(null=True)
    last_step = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"second factor of user {self.user_id}"

    @property
    def recovery_codes_left(self) -> int:
        return self.recovery_codes.filter(used_at=None).count()

    def use(self, step: int) -> bool:
        """Mark a time step as used; False if it or a later one was used already."""
        rows = OneTimeCode.objects.filter(pk=self.pk, last_step__lt=step)
        return bool(rows.update(last_step=step))


class RecoveryCode(models.Model):
    """Signs in once instead of a one-time code, when the device is lost.

    - `digest`: SHA-256 in hexadecimal. The code has 80 random bits, so it needs no slow hash.
    """

    account = models.ForeignKey(
        OneTimeCode, on_delete=models.CASCADE, related_name="recovery_codes"
    )
    digest = models.CharField(max_length=64)
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"recovery code {self.pk}"

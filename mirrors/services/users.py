"""People with their roles, API tokens with their scopes, and the end of both.

Signals write the audit entries (`services.audit.accounts`).

- A password change, a deactivation, and "end all sessions and tokens" leave neither session nor
  token of the account.
- The last active admin keeps the role, and nobody changes their own account here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from axes.models import AccessAttempt
from axes.utils import reset
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.signals import post_save
from django.utils import timezone
from knox.models import AuthToken

from mirrors.domain.audit.actors import name_refusal
from mirrors.domain.errors import InvalidSettings
from mirrors.models import ExtraRole, Role, Scope, TokenFacts
from mirrors.models.access.roles import forget_roles
from mirrors.models.audit.chain import origin
from mirrors.services.audit.accounts import note_person
from mirrors.services.errors import Conflict

# A use is stored when the stored one is older.
_USE_EVERY = timedelta(minutes=1)


def connect() -> None:
    """Connect the signal that revokes tokens at a password change, once a process."""
    post_save.connect(_end_tokens_of_old_password, sender=User, dispatch_uid="end tokens")


def ensure_person(*, username: str, password: str | None, role: Role) -> User:
    """Create the user, or give an existing one this password and role."""
    exists = User.objects.filter(username=username).exists()
    if not exists and (refusal := name_refusal(username)):
        raise InvalidSettings({"username": [refusal]})
    with transaction.atomic():
        user, _ = User.objects.get_or_create(username=username)
        if password is not None:
            user.set_password(password)
        user.is_staff = user.is_superuser = False
        user.save()
        _set_groups(user, role, kept=[word.value for word in ExtraRole])
    return user


def _set_groups(user: User, role: Role, kept: Collection[str] = ()) -> None:
    """Give the role and take the others; the further roles in `kept` are not touched."""
    known = {one.word for one in Role} | {extra.value for extra in ExtraRole}
    wanted = {role.word} - {Role.NONE.word}
    removed = known - wanted - set(kept)
    user.groups.remove(*user.groups.filter(name__in=removed))
    user.groups.add(*Group.objects.filter(name__in=wanted))


def set_roles(*, user: User, role: Role, extras: Collection[str], by: User | None) -> User:
    """Give exactly these roles; Role.NONE without extras takes every right."""
    _check_other(user, by)
    if unknown := set(extras) - {extra.value for extra in ExtraRole}:
        raise InvalidSettings({"extras": [f"{min(unknown)[:40]} is not a role."]})
    with transaction.atomic():
        if role is not Role.ADMIN:
            _check_not_last_admin(user)
        if user.is_superuser:
            user.is_superuser = user.is_staff = False
            user.save()
        _set_groups(user, role, kept=extras)
        user.groups.add(*Group.objects.filter(name__in=extras))
    return User.objects.get(pk=user.pk)


def apply_roles(*, user: User, role: Role, extras: Collection[str]) -> None:
    """Give exactly the roles that another system decided; the last admin may lose the role."""
    known = {one.word for one in Role} | {extra.value for extra in ExtraRole}
    held = set(user.groups.filter(name__in=known).values_list("name", flat=True))
    if held != ({role.word} - {Role.NONE.word}) | set(extras):
        with transaction.atomic():
            _set_groups(user, role, kept=extras)
            user.groups.add(*Group.objects.filter(name__in=extras))
    forget_roles(user)


def set_active(*, user: User, active: bool, by: User | None) -> User:
    """Deactivate an account, which ends its sessions and tokens; or activate it."""
    _check_other(user, by)
    with transaction.atomic():
        if not active:
            _check_not_last_admin(user)
        user.is_active = active
        user.save(update_fields=["is_active"])
        if not active:
            end_access(user=user, note=False)
    return user


def end_access(*, user: User, note: bool = True) -> tuple[int, int]:
    """End all sessions and revoke all tokens; returns how many of each."""
    with transaction.atomic():
        sessions = end_sessions(user=user)
        tokens = AuthToken.objects.filter(user=user)
        count = tokens.count()
        tokens.delete()
        if note:
            why = f"{sessions} sessions and {count} tokens ended."
            note_person(user, what="access ended", why=why)
    return sessions, count


def end_sessions(*, user: User) -> int:
    """End all sessions; returns how many. Tokens stay."""
    sessions = [one for one in _open_sessions() if _user_of(one) == str(user.pk)]
    Session.objects.filter(pk__in=[one.pk for one in sessions]).delete()
    return len(sessions)


def _open_sessions() -> QuerySet[Session]:
    return Session.objects.filter(expire_date__gt=timezone.now())


def _user_of(session: Session) -> str:
    return str(session.get_decoded().get(SESSION_KEY, ""))


def is_locked(user: User) -> bool:
    """Whether failed sign-ins lock the name at some address."""
    since = timezone.now() - settings.AXES_COOLOFF_TIME
    rows = AccessAttempt.objects.filter(username=user.username, attempt_time__gt=since)
    return rows.filter(failures_since_start__gte=settings.AXES_FAILURE_LIMIT).exists()


def unlock(*, user: User) -> None:
    reset(username=user.username)
    note_person(user, what="unlocked")


def _check_other(user: User, by: User | None) -> None:
    if by is not None and user.pk == by.pk:
        raise Conflict("You cannot change your own roles or deactivate yourself. Ask an admin.")


def _check_not_last_admin(user: User) -> None:
    admins = User.objects.filter(is_active=True).filter(
        Q(is_superuser=True) | Q(groups__name=Role.ADMIN.word)
    )
    if admins.filter(pk=user.pk).exists() and not admins.exclude(pk=user.pk).exists():
        raise Conflict(f"{user.username} is the last admin. Make another person admin first.")


# --- tokens ---------------------------------------------------------------------------------------


def create_token(
    *, username: str, days: int = 90, scope: str = Scope.EVERYTHING, name: str = ""
) -> str:
    """A new API token; only its digest is stored, so the token is shown once."""
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise InvalidSettings({"username": [f"There is no active user named {username}."]})
    if scope not in Scope.values:
        raise InvalidSettings({"scope": [f"{scope[:40]} is not one of {', '.join(Scope.values)}."]})
    with transaction.atomic():
        row, token = AuthToken.objects.create(user, expiry=timedelta(days=days))
        TokenFacts.objects.create(token=row, scope=scope, name=name.strip()[:100])
    return str(token)


def note_use(token: AuthToken, facts: TokenFacts | None) -> None:
    """Store the time and address of a use, at most once a minute."""
    now = timezone.now()
    if facts and facts.last_used_at and now - facts.last_used_at < _USE_EVERY:
        return
    use = {"last_used_at": now, "last_address": origin.get().address}
    if not TokenFacts.objects.filter(token=token).update(**use):
        TokenFacts.objects.get_or_create(token=token, defaults=use)


def tokens_of(user: User) -> list[Any]:
    """The tokens of a person, newest first, each with its facts; those of earlier versions too."""
    rows = AuthToken.objects.filter(user=user).select_related("facts").order_by("-created")
    return [with_facts(row) for row in rows]


def with_facts(row: Any) -> Any:
    """Set what lists show: the first characters, name, scope and last use."""
    facts: TokenFacts | None = getattr(row, "facts", None)
    row.start = row.token_key[:8]
    row.name = facts.name if facts else ""
    row.scope = facts.scope if facts else Scope.EVERYTHING.value
    row.last_used_at = facts.last_used_at if facts else None
    row.last_address = facts.last_address if facts else ""
    return row


def _end_tokens_of_old_password(sender: Any, instance: User, created: bool, **_: Any) -> None:
    before: User | None = getattr(instance, "_before", None)
    if not created and before is not None and before.password != instance.password:
        AuthToken.objects.filter(user=instance).delete()


# --- passwords ------------------------------------------------------------------------------------

_WORDS = ("understudy", "kafka", "mirrormaker", "password", "passwort", "letmein", "changeme")
_SHORTEST_REST = 6


class ProductNameValidator:
    """Rejects a password that is little more than the name of the product or of its field."""

    def validate(self, password: str, user: Any = None) -> None:
        rest = re.sub("[^a-z]", "", password.casefold())
        for word in _WORDS:
            rest = rest.replace(word, "")
        if len(set(rest)) < _SHORTEST_REST and any(w in password.casefold() for w in _WORDS):
            raise ValidationError(self.get_help_text(), code="password_guessable")

    def get_help_text(self) -> str:
        return "It must not consist of a word such as Understudy or Kafka with some additions."

"""Users with their role, and API tokens."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import Group, User
from django.db import transaction
from knox.models import AuthToken

from mirrors.domain.errors import InvalidSettings
from mirrors.models import Role


def ensure_person(*, username: str, password: str | None, role: Role) -> User:
    """Create the user, or give an existing one this password and role."""
    with transaction.atomic():
        user, _ = User.objects.get_or_create(username=username)
        if password is not None:
            user.set_password(password)
        user.is_staff = role >= Role.ADMIN
        user.is_superuser = False
        user.save()
        names = [known.word for known in Role if known is not Role.NONE]
        user.groups.remove(*Group.objects.filter(name__in=names))
        user.groups.add(Group.objects.get(name=role.word))
    return user


def create_token(*, username: str, days: int = 90) -> str:
    """A new API token; only its digest is stored, so the token is shown once."""
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise InvalidSettings({"username": [f"There is no active user named {username}."]})
    _, token = AuthToken.objects.create(user, expiry=timedelta(days=days))
    return str(token)

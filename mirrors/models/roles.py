"""Roles: viewer, operator, admin, kept as Django groups; each includes the one before."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User

View = TypeVar("View", bound=Callable[..., Any])


class Role(enum.IntEnum):
    """viewer reads; operator runs flows and tests; admin changes clusters, runners and people."""

    NONE = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return self.name.lower()


def role_of(user: AbstractBaseUser | AnonymousUser) -> Role:
    """The highest role of a person; asked once per request and remembered on the user object."""
    if not isinstance(user, User) or not user.is_active:
        return Role.NONE
    if user.is_superuser:
        return Role.ADMIN
    known: Role | None = getattr(user, "_role", None)
    if known is None:
        words = set(user.groups.values_list("name", flat=True))
        known = max((role for role in Role if role.word in words), default=Role.NONE)
        user._role = known  # type: ignore[attr-defined]
    return known


def needs(role: Role) -> Callable[[View], View]:
    """Mark a page with the role that it demands; unmarked pages read as viewer, write as admin."""

    def mark(view: View) -> View:
        view.role = role  # type: ignore[attr-defined]
        return view

    return mark

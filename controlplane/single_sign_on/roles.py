"""Groups at the provider to roles here: UNDERSTUDY_GROUP_ROLES, for OpenID Connect and proxies."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from mirrors.domain.audit.actors import name_refusal
from mirrors.models import ExtraRole, Role
from mirrors.services import users
from mirrors.services.access.grants import is_granted_to, set_sign_in_groups


class SignInRefused(Exception):
    """Why a person who is known elsewhere may not sign in here, as a sentence."""


@dataclasses.dataclass(frozen=True)
class Granted:
    """Roles by UNDERSTUDY_GROUP_ROLES, and the groups, which may have grants of their own."""

    role: Role
    extras: frozenset[str]
    groups: frozenset[str]

    @property
    def is_nothing(self) -> bool:
        return self.role is Role.NONE and not self.extras and not is_granted_to(self.groups)


def granted(names: Iterable[str]) -> Granted:
    """The highest role of the groups, and all further roles."""
    groups = frozenset(names)
    ranked = {role.word: role for role in Role}
    roles = [role for group in groups for role in settings.UNDERSTUDY_GROUP_ROLES.get(group, ())]
    highest = max((ranked[role] for role in roles if role in ranked), default=Role.NONE)
    return Granted(highest, frozenset(role for role in roles if role in set(ExtraRole)), groups)


def create_account(name: str, email: str) -> User:
    """A new account without a password. Raises SignInRefused if the name is taken or reserved."""
    name = User.normalize_username(name.strip())
    try:
        User._meta.get_field("username").run_validators(name)
        refusal = name_refusal(name)
    except ValidationError as error:
        refusal = " ".join(error.messages)
    if refusal:
        raise SignInRefused(f"The name {name[:60]} cannot be used here: {refusal}")
    if User.objects.filter(username__iexact=name).exists():
        # Not linked automatically: a person who can choose a name there would become that account.
        raise SignInRefused(
            f"An account {name} exists here already and does not belong to that sign-in. "
            "An admin can rename or delete it."
        )
    return User.objects.create_user(name, email=email[:254])


def apply(user: User, found: Granted) -> None:
    """Give exactly these roles, and store the groups, if they differ."""
    set_sign_in_groups(user=user, groups=found.groups)
    users.apply_roles(user=user, role=found.role, extras=found.extras)

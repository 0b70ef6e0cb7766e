"""Grants as rows, the rights of a person, and the filter of every list: what a person may see.

- `Access` answers for one user object and one request; the scope of a token limits it.
- `permitted` filters rows by a right, `visible` by the right to view.
- While a request of somebody who may not view everything is answered, the default managers of all
  rows that belong to a flow or a cluster apply the filter. So a new list is filtered too. Workers,
  commands and people who may view everything never meet it.
- The same managers read the flows of one shard only while a shard of all figures is scraped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar, TypeVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, User
from django.core.exceptions import PermissionDenied
from django.db import models
from django.db.models import Exists, F, Q, QuerySet, Value
from django.db.models.lookups import Exact

from mirrors.domain.access.grants import INSTALLATION, Grant, GrantScope, Reach, Subject, may, reach
from mirrors.domain.access.rights import (
    OF_EVERYTHING,
    OF_TOKENS,
    ROLE_FOR,
    ROLES,
    Right,
    rights_everywhere,
)
from mirrors.models.access.roles import Role, remember_group_names, scope_of
from mirrors.models.statements import NUMBER, Statement

View = TypeVar("View", bound=Callable[..., Any])
Person = AbstractBaseUser | AnonymousUser

ROLE_CHOICES = [(role, role) for role in ROLES]
SCOPE_CHOICES = [(scope.value, scope.value) for scope in GrantScope]


class Access:
    """What one person may do, with the token of this request. Rows are read when they matter."""

    def __init__(self, user: User) -> None:
        self.user = user
        # One query for both: most people have no row, and no further query.
        found = _groups_of_person().rows({NUMBER: user.pk})
        names = frozenset(name for name, _ in found)
        remember_group_names(user, names)
        self._has_rows = any(has for _, has in found) or not found
        self._roles = (Role.ADMIN.word,) if user.is_superuser else names
        self._scope = scope_of(user)
        self._cap = OF_TOKENS[self._scope]

    @functools.cached_property
    def _of_roles(self) -> frozenset[Right]:
        return rights_everywhere(self._roles) & self._cap

    @functools.cached_property
    def grants(self) -> tuple[Grant, ...]:
        """All grants: the roles of the person, those to the person, to sign-in groups."""
        roles = [role for name in self._roles for role in OF_EVERYTHING.get(name, ())]
        rows = (row.grant for row in _rows_of(self.user.pk)) if self._has_rows else ()
        return (*(Grant(role) for role in sorted(roles)), *rows)

    def may(self, right: Right, on: Subject | Owned = INSTALLATION) -> tuple[bool, str]:
        """Whether the person has the right on the subject, and why or why not."""
        if right in self._of_roles:
            return True, "granted on everything"
        if right not in self._cap:
            needed = f"This needs the role {ROLE_FOR[right]}."
            return False, f"{needed} The scope of this token is {self._scope}."
        if isinstance(on, Owned):
            # Its labels are read only for grants on parts.
            on = on.access_subject if self.is_limited else Subject(name=str(on))
        return may(self.grants, right, on)

    @property
    def is_limited(self) -> bool:
        """Whether some grant is not of everything."""
        return any(grant.scope is not GrantScope.EVERYTHING for grant in self.grants)

    def everywhere(self, right: Right) -> bool:
        return self.may(right)[0]

    def somewhere(self, right: Right) -> bool:
        return self.everywhere(right) or not self.reach(right).is_nothing

    def reach(self, right: Right) -> Reach:
        return reach(self.grants if right in self._cap else (), right)


def _rows_of(user: int) -> QuerySet[AccessGrant]:
    groups = SignInGroup.objects.filter(user=user).values("name")
    return AccessGrant.objects.filter(Q(user=user) | Q(group__in=groups))


@functools.cache
def _groups_of_person() -> Statement:
    """The names of the person's groups, each with whether the person has a row."""
    groups = Group.objects.filter(user=NUMBER)
    return Statement(groups.values_list("name", Exists(_rows_of(NUMBER))))


def access_of(user: Person) -> Access | None:
    """The access of a person, asked once per request; None without an active account."""
    if not isinstance(user, User) or not user.is_active:
        return None
    known: Access | None = user.__dict__.get("_access")
    if known is None:
        known = user.__dict__["_access"] = Access(user)
    return known


def has_right(user: Person, right: Right, on: Subject | Owned = INSTALLATION) -> bool:
    access = access_of(user)
    return access is not None and access.may(right, on)[0]


def demand(user: Person, right: Right, on: Subject | Owned = INSTALLATION) -> None:
    """Raise PermissionDenied with the reason unless the person has the right there."""
    access = access_of(user)
    allowed, why = access.may(right, on) if access else (False, "Sign in.")
    if not allowed:
        raise PermissionDenied(why)


# A right, none for any account, or a function of the address's parts.
Demand = Right | Callable[[Mapping[str, Any]], Right] | None


def needs(read: Demand, write: Demand = None) -> Callable[[View], View]:
    """Mark a page with the rights that reading and writing demand; by default both the same.

    Unmarked pages demand `view` to read and `administer` to write.
    """

    def mark(view: View) -> View:
        view.rights = (read, write or read)  # type: ignore[attr-defined]
        return view

    return mark


# --- rows ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Request:
    """Who asks, which right the address demands, and whether only rows of the person are read."""

    access: Access
    right: Right
    filtered: bool

    @property
    def shown(self) -> Right:
        """The right on the rows that are read; a token for `/metrics` has no right to view."""
        return self.right if self.right is Right.SCRAPE else Right.VIEW


_request: ContextVar[Request | None] = ContextVar("request of a person with grants", default=None)


@dataclasses.dataclass(frozen=True)
class Shard:
    """The flows whose keys leave the same remainder; all shards together have each flow once.

    `number` is from 1 to `of`. Rows that belong to no flow are in the first one.
    """

    number: int
    of: int

    @property
    def is_first(self) -> bool:
        return self.number == 1

    def rows_of(self, model: type[models.Model]) -> Q:
        """By arithmetic on the key: a query within a query would be repeated for each row."""
        if model._meta.label == "mirrors.Flow":
            return self._has("pk")
        is_of_flow = any(field.name == "flow" for field in model._meta.concrete_fields)
        return self._has("flow_id") if is_of_flow else Q()

    def _has(self, key: str) -> Q:
        return Q(Exact(F(key) % Value(self.of), Value(self.number - 1)))


_shard: ContextVar[Shard | None] = ContextVar("shard of the flows that is read", default=None)


@contextlib.contextmanager
def only_shard(shard: Shard | None) -> Iterator[None]:
    """Inside, the default managers read rows of these flows only; without a shard, of all."""
    token = _shard.set(shard)
    try:
        yield
    finally:
        _shard.reset(token)


@contextlib.contextmanager
def own_request() -> Iterator[None]:
    """Inside, `limit_request` holds for one request."""
    token = _request.set(None)
    try:
        yield
    finally:
        _request.reset(token)


def limit_request(user: Person, right: Right, *, reading: bool) -> None:
    """From now on, rows of this request are those that the person may view.

    While it changes something, services must see all rows, so only pages and choices are limited.
    """
    access = access_of(user)
    _request.set(None if access is None else Request(access, right, filtered=reading))


@contextlib.contextmanager
def showing() -> Iterator[None]:
    """Inside, a page is rendered: only rows that the person may view are read."""
    now = _request.get()
    token = _request.set(dataclasses.replace(now, filtered=True) if now else None)
    try:
        yield
    finally:
        _request.reset(token)


def seen(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The rows that the person of this request may view; all outside of one."""
    now = _request.get()
    return rows if now is None else _reached(rows, now.access, now.shown)


def filtered(rows: QuerySet[Any]) -> QuerySet[Any]:
    """As `seen`, but all rows while the request changes something: the default of managers."""
    now, shard = _request.get(), _shard.get()
    if shard is not None:
        rows = rows.filter(shard.rows_of(rows.model))
    return seen(rows) if now is not None and now.filtered else rows


def limits() -> tuple[Shard | None, Right | None, Reach | None]:
    """What limits the rows that managers read now: equal limits give equal queries."""
    now = _request.get()
    if now is None or not now.filtered or now.access.everywhere(now.shown):
        return _shard.get(), None, None
    return _shard.get(), now.shown, now.access.reach(now.shown)


def sees_everything() -> bool:
    """Whether no filter applies now: for statements that bypass the managers."""
    now = _request.get()
    return now is None or not now.filtered or now.access.everywhere(Right.VIEW)


def choosable(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The rows on which the person of this request has the right that it demands."""
    now = _request.get()
    return rows if now is None else _reached(rows, now.access, now.right)


def demand_here(on: Subject | Owned, right: Right | None = None) -> None:
    """PermissionDenied unless the person of this request has its right, or `right`, there."""
    if (now := _request.get()) is not None:
        demand(now.access.user, right or now.right, on)


def permitted(rows: QuerySet[Any], user: Person, right: Right) -> QuerySet[Any]:
    """The rows on which the person has the right. Rows of the installation need it everywhere."""
    access = access_of(user)
    if access is None:
        return rows.none()
    return _reached(rows, access, right)


def visible(rows: QuerySet[Any], user: Person) -> QuerySet[Any]:
    """The rows that the person may view."""
    return permitted(rows, user, Right.VIEW)


def _reached(rows: QuerySet[Any], access: Access, right: Right) -> QuerySet[Any]:
    if access.everywhere(right):
        return rows
    model = rows.model
    if not issubclass(model, Owned):
        return rows.none()
    kind = Right.VIEW if right is Right.SCRAPE else right
    return rows.filter(model.rows_reached(access.reach(right), kind))


class VisibleManager(models.Manager[Any]):
    """The rows that the person whose request is answered may view."""

    def get_queryset(self) -> QuerySet[Any]:
        return filtered(super().get_queryset())


class Owned(models.Model):
    """A row that belongs to another, at last to a flow or a cluster: `parent` is the foreign key.

    Rows that have no parent override both methods. `_base_manager` has all rows.
    """

    parent: ClassVar[str] = "flow"
    objects = VisibleManager()

    class Meta:
        abstract = True

    @classmethod
    def rows_reached(cls, where: Reach, right: Right) -> Q:
        """The rows on which `right` is held there."""
        owner: Any = cls._meta.get_field(cls.parent).related_model
        return Q(**{f"{cls.parent}__in": owner.within(where, right)})

    @classmethod
    def within(cls, where: Reach, right: Right) -> QuerySet[Any]:
        """Keys of these rows, as a subquery that no request filters again."""
        return cls._base_manager.filter(cls.rows_reached(where, right)).order_by().values("pk")

    @property
    def access_subject(self) -> Subject:
        """What a right on this row is demanded on."""
        owner = getattr(self, self.parent)
        return owner.access_subject if isinstance(owner, Owned) else INSTALLATION


class FlowLabel(Owned):
    """A label of a flow, such as the name of its team."""

    flow = models.ForeignKey("mirrors.Flow", on_delete=models.CASCADE, related_name="labels")
    name = models.CharField(max_length=63)

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(fields=["flow", "name"], name="one label of a name per flow"),
        )
        indexes = (models.Index(fields=["name"], name="flows_of_label"),)

    def __str__(self) -> str:
        return self.name


class SignInGroup(models.Model):
    """A group of a person at the identity provider or proxy, as of the last check."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sign_in_groups"
    )
    name = models.CharField(max_length=255)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["user", "name"], name="one row per person and group"),
        )

    def __str__(self) -> str:
        return self.name


class AccessGrant(models.Model):
    """A role on a part of the installation, for a person or for a group of the sign-in.

    Exactly one of `cluster`, `flow` and `label` is set, by the scope; none for everything.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="grants"
    )
    group = models.CharField(max_length=255, blank=True)
    role = models.CharField(max_length=16, choices=ROLE_CHOICES)
    scope = models.CharField(max_length=16, choices=SCOPE_CHOICES)
    cluster = models.ForeignKey(
        "mirrors.Cluster", on_delete=models.CASCADE, null=True, related_name="grants"
    )
    flow = models.ForeignKey(
        "mirrors.Flow", on_delete=models.CASCADE, null=True, related_name="grants"
    )
    label = models.CharField(max_length=63, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.CheckConstraint(
                condition=Q(user__isnull=False, group="") | (Q(user=None) & ~Q(group="")),
                name="a grant is for a person or for a group",
            ),
            models.CheckConstraint(
                condition=Q(scope="everything", cluster=None, flow=None, label="")
                | Q(scope="cluster", cluster__isnull=False, flow=None, label="")
                | Q(scope="flow", cluster=None, flow__isnull=False, label="")
                | (Q(scope="label", cluster=None, flow=None) & ~Q(label="")),
                name="a grant has the part of its scope",
            ),
        )

    def __str__(self) -> str:
        return f"{self.role} on {self.part}"

    @property
    def part(self) -> str:
        """The part of the installation, for people."""
        of = self.cluster or self.flow or self.label
        return f"{self.scope} {of}" if of else str(self.scope)

    @property
    def grant(self) -> Grant:
        of = self.cluster_id or self.flow_id or self.label or ""
        return Grant(self.role, GrantScope(self.scope), of)

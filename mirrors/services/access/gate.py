"""The gate of every address: the right that it demands, on the object that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.apps import apps
from django.core.exceptions import PermissionDenied
from django.http import Http404

from mirrors.domain.access.addresses import Object, is_open_to_grants, object_of
from mirrors.domain.access.grants import INSTALLATION, Subject
from mirrors.domain.access.rights import Right
from mirrors.models.access.grants import Access, Owned, access_of, demand, limit_request, visible

HIDDEN = "There is no such object, or you may not view it."


def check(user: Any, right: Right, route: str, parts: Mapping[str, Any], *, reading: bool) -> None:
    """Raise PermissionDenied, or Http404 for a hidden object; limit the rows of this request.

    `route` and `parts`: the pattern of the address, and the values in it.
    """
    limit_request(user, right, reading=reading)
    access = access_of(user)
    if access is None:
        raise PermissionDenied("Sign in.")
    if not access.everywhere(right):
        _check_part(access, right, route, parts, reading=reading)


def _check_part(
    access: Access, right: Right, route: str, parts: Mapping[str, Any], *, reading: bool
) -> None:
    """The person has no grant of everything with this right."""
    names_object = object_of(route) is not None
    if not names_object and is_open_to_grants(route, reading=reading) and access.somewhere(right):
        return
    if not names_object or not access.somewhere(Right.VIEW):
        demand(access.user, right)
    row = _visible_object(access, route, parts)
    if row is None and not access.everywhere(Right.VIEW):
        raise Http404(HIDDEN)
    if row is None or right is not Right.VIEW:
        demand(access.user, right, row or INSTALLATION)


def subject_of(user: Any, route: str, parts: Mapping[str, Any]) -> Subject:
    """What a page is about, for the buttons on it."""
    access = access_of(user)
    row = _visible_object(access, route, parts) if access else None
    return row.access_subject if row else INSTALLATION


def _visible_object(access: Access, route: str, parts: Mapping[str, Any]) -> Owned | None:
    if (named := object_of(route)) is None:
        return None
    return visible_row(access, named, next(parts[part] for part in named.parts if part in parts))


def visible_row(access: Access, named: Object, key: Any) -> Owned | None:
    """The row of this key, if the person may view it."""
    model: Any = apps.get_model(named.model)
    rows = visible(model._base_manager.all(), access.user)
    found: Owned | None = rows.filter(**{named.field: key}).first()
    return found

"""What documents change: each one is sent to the REST API inside a transaction.

A plan does the same as an application and rolls it back, so both always agree. A document goes
through the view that a request to its address would reach: the same rights, checks, audit, tasks.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.declarations.documents import Document, Problem
from controlplane.declarations.kinds import KINDS, BadName, Kind, needs, order_of
from mirrors.models import Flow


@dataclasses.dataclass(frozen=True)
class FieldChange:
    name: str
    was: Any
    becomes: Any


@dataclasses.dataclass(frozen=True)
class Change:
    """`action`: create, change, or none."""

    kind: str
    name: str
    action: str
    where: str
    fields: tuple[FieldChange, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    changes: tuple[Change, ...]
    problems: tuple[Problem, ...]

    @property
    def digest(self) -> str:
        """Identifies the changes, wherever their documents are in the files."""
        facts = [dataclasses.astuple(change) for change in self.changes if change.action != "none"]
        told = json.dumps([[*fact[:3], fact[4]] for fact in facts], sort_keys=True, default=str)
        return hashlib.sha256(told.encode()).hexdigest()[:32]


class Changed(Exception):
    """The documents would not change what the plan said."""


class _RollBack(Exception):
    """Ends the transaction of a plan."""


def plan_changes(request: Request, documents: Sequence[Document]) -> Plan:
    """What applying would change, and what the API refuses. Changes nothing."""
    found: Plan | None = None
    try:
        with transaction.atomic():
            found = _send_all(request, documents)
            raise _RollBack
    except _RollBack:
        pass
    assert found is not None  # noqa: S101 - set before the roll-back
    return found


def apply_changes(request: Request, documents: Sequence[Document], digest: str) -> Plan:
    """Everything or nothing. Raises Changed if `digest` is not that of the present plan."""
    with transaction.atomic():
        found = _send_all(request, documents)
        if found.digest != digest:
            raise Changed
        if found.problems:
            transaction.set_rollback(True)
    return found


def _send_all(request: Request, documents: Sequence[Document]) -> Plan:
    changes: list[Change] = []
    problems: list[Problem] = []
    # A document that refers to a refused one would be refused for that alone.
    refused: set[tuple[str, str]] = set()
    for document in sorted(documents, key=lambda one: order_of(one.kind, one.name)):
        kind = KINDS[document.kind]
        if refused & needs(document.kind, document.name, document.spec):
            refused.add((document.kind, document.name))
            continue
        try:
            with transaction.atomic():
                change = _send(request, kind, document)
                if change.action == "none":
                    # A request that changes nothing leaves no audit row.
                    transaction.set_rollback(True)
            changes.append(change)
        except _Refused as error:
            problems += error.problems
            refused.add((document.kind, document.name))
    return Plan(tuple(changes), tuple(problems))


class _Refused(Exception):
    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems


def _send(request: Request, kind: Kind, document: Document) -> Change:
    unknown = [name for name in document.spec if name not in kind.fields]
    if unknown:
        known = ", ".join(kind.fields)
        raise _Refused(
            [
                Problem(document.where(name), f"{kind.name} has no field {name}. Fields: {known}.")
                for name in unknown
            ]
        )
    try:
        key = kind.find(document.name)
    except BadName as error:
        raise _Refused([Problem(document.where(), str(error))]) from None
    if key is None:
        body = {**kind.identity(document.name), **document.spec}
        made = _ask(request, kind, "create", body, document)
        fields = [FieldChange(name, None, made.get(name)) for name in document.spec]
        return Change(kind.name, document.name, "create", document.where(), tuple(fields))
    before = _ask(request, kind, "retrieve", None, document, key)
    wanted = {name: _as_stored(kind, name, value) for name, value in document.spec.items()}
    if all(before.get(name) == value for name, value in wanted.items()):
        return Change(kind.name, document.name, "none", document.where(), ())
    _ask(request, kind, "partial_update", dict(document.spec), document, key)
    after = _ask(request, kind, "retrieve", None, document, key)
    # A value that means the same as the stored one is no change.
    differ = [name for name in document.spec if before.get(name) != after.get(name)]
    fields = [FieldChange(name, before.get(name), after.get(name)) for name in differ]
    action = "change" if fields else "none"
    return Change(kind.name, document.name, action, document.where(), tuple(fields))


def _as_stored(kind: Kind, name: str, value: Any) -> Any:
    if name in kind.flow_fields and isinstance(value, str):
        source, _, target = value.partition("->")
        flow = Flow.objects.filter(source__alias=source, target__alias=target).first()
        return flow.pk if flow else value
    return value


_METHODS = {"create": "POST", "partial_update": "PATCH", "retrieve": "GET"}


def _ask(
    request: Request,
    kind: Kind,
    action: str,
    body: Mapping[str, Any] | None,
    document: Document,
    key: str | None = None,
) -> Mapping[str, Any]:
    """What the view answers; raises _Refused with a problem for each field."""
    method = _METHODS[action]
    view = kind.view.as_view({method.lower(): action})
    place = {} if key is None else {kind.lookup: key}
    answer: Response = view(_inner_request(request, method, body), **place)
    if answer.status_code < 400:
        found: Mapping[str, Any] = answer.data
        return found
    error = answer.data["error"]
    problems = [
        Problem(document.where(name), f"{kind.name} {document.name}, {name}: {' '.join(said)}")
        for name, said in (error.get("fields") or {}).items()
    ]
    whole = Problem(document.where(), f"{kind.name} {document.name}: {error['message']}")
    raise _Refused(problems or [whole])


def _inner_request(request: Request, method: str, body: Mapping[str, Any] | None) -> HttpRequest:
    """The outer request's person and address, with another method and body."""
    inner = copy.copy(request._request)
    text = b"" if body is None else json.dumps(body).encode()
    inner.method = method
    inner.META = {
        **request._request.META,
        "REQUEST_METHOD": method,
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(text)),
    }
    # Headers are read from META when first asked for.
    inner.__dict__.pop("headers", None)
    inner._body = text
    inner._read_started = True  # type: ignore[attr-defined]
    # The outer request has passed this check.
    inner._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
    return inner

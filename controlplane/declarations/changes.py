"""What documents change: each one is sent to the REST API inside a transaction.

A plan does the same as an application and rolls it back, so both always agree. A document goes
through the view that a request to its address would reach: the same rights, checks, audit, tasks.

- Drift: a field that a document set, and that somebody changed since. It is refused unless
  `Options.overwrite_drift`; otherwise a file would undo an operator's action unseen.
- `Options.prune`: flows with this label, their schedules, alert rules, objectives and prices, are
  deleted if no document is about them.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.declarations.documents import Document, Problem
from controlplane.declarations.kinds import KINDS, BadName, Kind, needs, order_of
from mirrors.domain.settings.table import nearest
from mirrors.models import AppliedDocument, Flow


@dataclasses.dataclass(frozen=True)
class Options:
    prune: str = ""
    overwrite_drift: bool = False


@dataclasses.dataclass(frozen=True)
class FieldChange:
    name: str
    was: Any
    becomes: Any
    # Somebody changed it after it was last applied.
    drifted: bool = False


@dataclasses.dataclass(frozen=True)
class Change:
    """`action`: create, change, delete, or none. `stored`: the document's fields as they are then.

    `where`: `file:line`; of a deleted object `label:NAME`.
    """

    kind: str
    name: str
    action: str
    where: str
    fields: tuple[FieldChange, ...]
    stored: Mapping[str, Any] = dataclasses.field(default_factory=dict)


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


def plan_changes(request: Request, documents: Sequence[Document], options: Options) -> Plan:
    """What applying would change, and what the API refuses. Changes nothing."""
    found: Plan | None = None
    try:
        with transaction.atomic():
            found = _send_all(request, documents, options)
            raise _RollBack
    except _RollBack:
        pass
    assert found is not None  # noqa: S101 - set before the roll-back
    return found


def apply_changes(
    request: Request, documents: Sequence[Document], options: Options, digest: str
) -> Plan:
    """Everything or nothing. Raises Changed if `digest` is not that of the present plan."""
    with transaction.atomic():
        found = _send_all(request, documents, options)
        if found.digest != digest:
            raise Changed
        if found.problems:
            transaction.set_rollback(True)
        else:
            _remember(found.changes, who=request.user.get_username())
    return found


def _remember(changes: Sequence[Change], *, who: str) -> None:
    """Store what was applied, to see drift later."""
    for change in changes:
        key: dict[str, Any] = {"kind": change.kind, "name": change.name[:255]}
        if change.action == "delete":
            AppliedDocument.objects.filter(**key).delete()
            continue
        row = AppliedDocument.objects.filter(**key).first()
        spec = {**(row.spec if row else {}), **_plain(change.stored)}
        if row is None or row.spec != spec:
            facts = {"spec": spec, "applied_by": who, "applied_at": timezone.now()}
            AppliedDocument.objects.update_or_create(**key, defaults=facts)


def _plain(value: Any) -> Any:
    """As it comes back from the database."""
    return json.loads(json.dumps(value, default=str))


def _send_all(request: Request, documents: Sequence[Document], options: Options) -> Plan:
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
                change = _send(request, kind, document, options)
                if change.action == "none":
                    # A request that changes nothing leaves no audit row.
                    transaction.set_rollback(True)
            changes.append(change)
        except _Refused as error:
            problems += error.problems
            refused.add((document.kind, document.name))
    if options.prune and not refused:
        deleted, kept = _prune(request, documents, options.prune)
        changes += deleted
        problems += kept
    return Plan(tuple(changes), tuple(problems))


def _prune(
    request: Request, documents: Sequence[Document], label: str
) -> tuple[list[Change], list[Problem]]:
    """Delete what belongs to flows with the label, and has no document. The last ones first."""
    where = f"label:{label}"
    flows = Flow.objects.filter(labels__name=label).select_related("source", "target")
    named = {(document.kind, document.name) for document in documents}
    if not any(("Flow", flow.name) in named for flow in flows):
        words = f"No flow of the files has the label {label}, so prune would delete all of them."
        return [], [Problem(where, f"{words} Correct the label, or delete the flows yourself.")]
    changes: list[Change] = []
    problems: list[Problem] = []
    for kind in reversed(list(KINDS.values())):
        owned = kind.of_flows(flows) if kind.of_flows else []
        for name, key in reversed(owned):
            if (kind.name, name) in named:
                continue
            document = Document(kind.name, name, {}, "label", 0, {})
            try:
                with transaction.atomic():
                    _ask(request, kind, "destroy", None, document, key)
                changes.append(Change(kind.name, name, "delete", where, ()))
            except _Refused as error:
                problems += [Problem(where, one.sentence) for one in error.problems]
    return changes, problems


def _meant(name: str, kind: Kind) -> str:
    meant = nearest(name, kind.fields)
    return f" Did you mean {meant}?" if meant else ""


class _Refused(Exception):
    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems


def _send(request: Request, kind: Kind, document: Document, options: Options) -> Change:
    unknown = [name for name in document.spec if name not in kind.fields]
    if unknown:
        known = ", ".join(kind.fields)
        raise _Refused(
            [
                Problem(
                    document.where(name),
                    f"{kind.name} has no field {name}. Fields: {known}.{_meant(name, kind)}",
                )
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
        # Of a flow its name: the plan is rolled back, and its number with it.
        fields = [
            FieldChange(name, None, value if name in kind.flow_fields else made.get(name))
            for name, value in document.spec.items()
        ]
        stored = {name: made.get(name) for name in document.spec}
        return Change(kind.name, document.name, "create", document.where(), tuple(fields), stored)
    before = _ask(request, kind, "retrieve", None, document, key)
    wanted = {name: _as_stored(kind, name, value) for name, value in document.spec.items()}
    if all(before.get(name) == value for name, value in wanted.items()):
        return Change(kind.name, document.name, "none", document.where(), (), wanted)
    _ask(request, kind, "partial_update", dict(document.spec), document, key)
    after = _ask(request, kind, "retrieve", None, document, key)
    # A value that means the same as the stored one is no change.
    differ = [name for name in document.spec if before.get(name) != after.get(name)]
    is_new = kind.is_part_of_flow and kind.is_empty(before)
    applied = AppliedDocument.objects.filter(kind=kind.name, name=document.name).first()
    drifted = [
        name
        for name in differ
        if applied
        and not is_new
        and name in applied.spec
        and applied.spec[name] != _plain(before.get(name))
    ]
    if applied and drifted and not options.overwrite_drift:
        raise _Refused([_drift(document, applied, name, before.get(name)) for name in drifted])
    fields = [
        FieldChange(name, before.get(name), after.get(name), name in drifted) for name in differ
    ]
    action = ("create" if is_new else "change") if fields else "none"
    stored = {name: after.get(name) for name in document.spec}
    return Change(kind.name, document.name, action, document.where(), tuple(fields), stored)


def _drift(document: Document, applied: AppliedDocument, name: str, now: Any) -> Problem:
    was, now = applied.spec[name], _plain(now)
    if isinstance(was, dict) and isinstance(now, dict):
        keys = sorted(key for key in {*was, *now} if was.get(key) != now.get(key))
        name = f"{name} ({', '.join(keys)})"
        was, now = ({key: value.get(key) for key in keys} for value in (was, now))
    at = applied.applied_at.strftime("%Y-%m-%d %H:%M:%SZ")
    return Problem(
        document.where(name.partition(" ")[0]),
        f"{document.kind} {document.name}, {name}: somebody changed it after {applied.applied_by} "
        f"applied it at {at}, from {_short(was)} to {_short(now)}. Take it into the file, or apply "
        "with overwrite_drift.",
    )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _as_stored(kind: Kind, name: str, value: Any) -> Any:
    if name in kind.flow_fields and isinstance(value, str):
        source, _, target = value.partition("->")
        flow = Flow.objects.filter(source__alias=source, target__alias=target).first()
        return flow.pk if flow else value
    return value


# What a field refers to by its name.
_REFERS = {"source": "cluster", "target": "cluster", "runner": "runner", "channels": "channel"}
_METHODS = {
    "create": "POST", "partial_update": "PATCH", "retrieve": "GET", "destroy": "DELETE"
}  # fmt: skip


class _Known(BaseAuthentication):
    """The person of the outer request, with the scope of its token: authenticated once for all."""

    def __init__(self, outer: Request) -> None:
        self._outer = outer

    def authenticate(self, request: Request) -> tuple[Any, Any]:
        return self._outer.user, self._outer.auth


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
    known = functools.partial(_Known, request)
    view = kind.view.as_view({method.lower(): action}, authentication_classes=[known])
    place = {} if key is None else {kind.lookup: key}
    answer: Response = view(_inner_request(request, method, body), **place)
    if answer.status_code < 400:
        found: Mapping[str, Any] = answer.data or {}
        return found
    error = answer.data["error"]
    problems = [
        Problem(
            document.where(name),
            f"{kind.name} {document.name}, {name}: "
            f"{' '.join(_for_files(name, sentence) for sentence in said)}",
        )
        for name, said in (error.get("fields") or {}).items()
    ]
    whole = Problem(document.where(), f"{kind.name} {document.name}: {error['message']}")
    raise _Refused(problems or [whole])


def _for_files(field: str, sentence: str) -> str:
    """A sentence of REST about a field, for a person who writes a file."""
    if found := re.fullmatch(r"Object with \w+=(.*) does not exist\.", sentence):
        what = _REFERS.get(field.partition(".")[0], "object")
        return f"There is no {what} {found[1]}. Add a document with this name, or correct it."
    if sentence == "Not a valid string.":
        return "It must be one text. Write a list as one text with commas in it."
    if sentence == "This field may not be null.":
        return "Its value is missing."
    if sentence.startswith("Expected a dictionary"):
        return "It must be a mapping of names to values, such as {topics: orders}."
    return sentence


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
    return inner

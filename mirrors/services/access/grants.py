"""Give and take grants of roles on parts of the installation; the labels of flows.

Every change is in the audit log, in the log of the person or group that it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from mirrors.domain.access.grants import GrantScope
from mirrors.domain.access.rights import ROLES
from mirrors.domain.errors import InvalidSettings
from mirrors.models import AccessGrant, Cluster, Flow, FlowLabel, SignInGroup
from mirrors.models.audit.transitions import note, write_entry
from mirrors.services.errors import Conflict

MOST_LABELS = 20
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_WRONG_LABEL = (
    "A label has 1 to 63 letters, digits, dots, dashes or underscores, and begins with a letter "
    "or digit."
)


def give_grant(
    *,
    user: User | None = None,
    group: str = "",
    role: str,
    scope: str,
    cluster: Cluster | None = None,
    flow: Flow | None = None,
    label: str = "",
    who: str,
) -> AccessGrant:
    """Give the role, to a person or to a group of the sign-in, on the part that `scope` names."""
    part = {"cluster": cluster, "flow": flow, "label": label.strip()}
    facts: dict[str, Any] = {"user": user, "group": group.strip(), "role": role, "scope": scope}
    if errors := _errors(facts, part):
        raise InvalidSettings(errors)
    if user is not None and user.username == who:
        raise Conflict("You cannot change your own grants. Ask another admin.")
    with transaction.atomic():
        if AccessGrant.objects.filter(**facts, **part).exists():
            raise Conflict("This grant exists already.")
        row = AccessGrant.objects.create(**facts, **part, created_by=who)
        _note(row, what="grant given", side="after", who=who)
    return row


def _errors(facts: dict[str, Any], part: dict[str, Any]) -> dict[str, list[str]]:
    errors: dict[str, list[str]] = {}
    scope = facts["scope"]
    if (facts["user"] is None) == (not facts["group"]):
        errors["group"] = ["Enter either a person or a group of the sign-in."]
    if facts["role"] not in ROLES:
        errors["role"] = [f"It is not one of {', '.join(ROLES)}."]
    if scope not in set(GrantScope):
        return {**errors, "scope": [f"It is not one of {', '.join(GrantScope)}."]}
    for name, value in part.items():
        if name == scope and not value:
            errors[name] = [f"A grant on a {name} needs the {name}."]
        if name != scope and value:
            errors[name] = [f"The scope is {scope}, so leave it empty."]
    if scope == GrantScope.LABEL and part["label"] and not _LABEL.fullmatch(part["label"]):
        errors["label"] = [_WRONG_LABEL]
    return errors


def take_grant(*, grant: AccessGrant, who: str) -> None:
    """Take it; the person loses its rights at the next request."""
    if grant.user is not None and grant.user.username == who:
        raise Conflict("You cannot change your own grants. Ask another admin.")
    with transaction.atomic():
        _note(grant, what="grant removed", side="before", who=who)
        grant.delete()


def _note(grant: AccessGrant, *, what: str, side: str, who: str) -> None:
    user = grant.user
    write_entry(
        subject="user" if user else "group",
        subject_id=user.pk if user else 0,
        field="account",
        name=user.username if user else f"group {grant.group}",
        who=who,
        to_state=what,
        why=str(grant),
        detail={side: {"grant": str(grant)}},
    )


def labels_change(*, flow: Flow, names: Iterable[str] | None) -> dict[str, str | None] | None:
    """What `set_labels` would change, as a row of a preview; None if nothing. None: no wish."""
    if names is None:
        return None
    before = sorted(flow.labels.values_list("name", flat=True))
    after = _checked_labels(names)
    if before == after:
        return None
    return {"key": "labels", "before": ", ".join(before), "after": ", ".join(after)}


def _checked_labels(names: Iterable[str]) -> list[str]:
    wanted = sorted({name.strip() for name in names if name.strip()})
    if any(not _LABEL.fullmatch(name) for name in wanted):
        raise InvalidSettings({"labels": [_WRONG_LABEL]})
    if len(wanted) > MOST_LABELS:
        raise InvalidSettings({"labels": [f"A flow has at most {MOST_LABELS} labels."]})
    return wanted


def set_labels(*, flow: Flow, names: Iterable[str], who: str) -> list[str]:
    """Give the flow exactly these labels; returns them in order."""
    wanted = _checked_labels(names)
    with transaction.atomic():
        Flow.objects.select_for_update(of=("self",)).get(pk=flow.pk)
        rows = FlowLabel.objects.filter(flow=flow)
        before = sorted(rows.values_list("name", flat=True))
        if before != wanted:
            rows.exclude(name__in=wanted).delete()
            added = [FlowLabel(flow=flow, name=name) for name in wanted if name not in before]
            FlowLabel.objects.bulk_create(added)
            why = f"Labels: {', '.join(wanted) or 'none'}."
            detail = {"before": {"labels": before}, "after": {"labels": wanted}}
            note(flow, what="labels", who=who, why=why, detail=detail)
    return wanted


def set_sign_in_groups(*, user: User, groups: Iterable[str]) -> None:
    """Store the groups that the identity provider or proxy named, for grants to groups."""
    wanted = {name[:255] for name in groups if name}
    rows = SignInGroup.objects.filter(user=user)
    held = set(rows.values_list("name", flat=True))
    if held != wanted:
        with transaction.atomic():
            rows.exclude(name__in=wanted).delete()
            SignInGroup.objects.bulk_create(
                [SignInGroup(user=user, name=name) for name in sorted(wanted - held)]
            )


def is_granted_to(groups: Iterable[str]) -> bool:
    """Whether one of the groups has a grant."""
    return AccessGrant.objects.filter(group__in=[name[:255] for name in groups if name]).exists()

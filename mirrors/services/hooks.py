"""Hooks: addresses that failovers call. Admins make them; a flow names one.

An operator who could set an address would choose where secrets of channels go, and could read
answers of internal services. So a flow has only the name of a hook.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.settings import failover as keys
from mirrors.domain.settings.value_types import Url
from mirrors.models import Flow, Hook
from mirrors.models.audit.transitions import note
from mirrors.outbound_http import check_headers, refusal
from mirrors.services.errors import Conflict

_FIELDS = {keys.HEADERS: "headers", keys.SECRET: "secret"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def resolved_hooks(flow: Flow) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The hooks of a run of this flow, with the facts of its named hook; and what is missing."""
    found = keys.hooks_of(flow.properties)
    name = found.get(keys.WEBHOOK)
    if not name:
        return found, {}
    hook = Hook.objects.filter(name=name).first()
    if hook is None:
        return found, {keys.WEBHOOK: [f"There is no hook {name}. An admin makes it."]}
    facts = {keys.URL: hook.url, keys.HEADERS: hook.headers, keys.SECRET: hook.secret}
    return {**found, **{key: value or None for key, value in facts.items()}}, {}


def check_hook_keys(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """An edit of a flow names a hook that exists, and sets no address, header or secret."""
    errors = {
        key: [f"Admins set this on a hook (hooks/); a flow names the hook in {keys.WEBHOOK}."]
        for key in keys.changed_hook_keys(before, after)
    }
    name = after.get(keys.WEBHOOK, "").strip()
    if name and name != before.get(keys.WEBHOOK) and not Hook.objects.filter(name=name).exists():
        errors[keys.WEBHOOK] = [f"There is no hook {name}. An admin makes it (hooks/)."]
    if errors:
        raise InvalidSettings(errors)


def save_hook(*, hook: Hook | None, facts: Mapping[str, str], who: str) -> Hook:
    """Create or change a hook; `facts` has name, url, headers and secret."""
    row = hook or Hook()
    before = {name: getattr(row, name) for name in ("name", "url", "headers", "secret")}
    after = {**before, **{name: value.strip() for name, value in facts.items()}}
    if errors := _errors(after):
        raise InvalidSettings(errors)
    for name, value in after.items():
        setattr(row, name, value)
    row.changed_by = who[:150]
    changed = [name for name in after if after[name] != before[name]]
    try:
        with transaction.atomic():
            row.save()
            note(
                row,
                what="edited" if hook else "created",
                who=who,
                why=", ".join(changed),
                # An address may be a secret, so an entry names only what was changed.
                detail={"changed": changed},
            )
    except IntegrityError:
        raise Conflict(f"A hook {after['name']} already exists.") from None
    return row


def delete_hook(*, hook: Hook, who: str) -> None:
    used = [flow.name for flow in _flows() if flow.properties.get(keys.WEBHOOK) == hook.name]
    if used:
        raise Conflict(f"{hook.name} is used by {', '.join(used[:3])}. Change these flows first.")
    with transaction.atomic():
        note(hook, what="deleted", who=who, why="")
        hook.delete()


def _flows() -> Any:
    return Flow.objects.select_related("source", "target")


def _errors(facts: Mapping[str, str]) -> dict[str, list[str]]:
    errors: dict[str, list[str]] = {}
    if not _NAME.fullmatch(facts["name"]):
        words = "Use 1 to 64 letters, digits, dots, underscores and hyphens."
        errors["name"] = [words]
    try:
        Url().parse(facts["url"])
    except ValueError as error:
        errors["url"] = [str(error)]
    given = {key: facts[name] for key, name in _FIELDS.items() if facts[name]}
    trouble = keys.contradictions(given)
    errors |= {name: trouble[key] for key, name in _FIELDS.items() if key in trouble}
    if "headers" not in errors and (why := check_headers(keys.headers_of(facts["headers"]))):
        errors["headers"] = [why]
    if "secret" not in errors and facts["secret"] and (why := refusal(facts["secret"])):
        errors["secret"] = [why]
    return errors

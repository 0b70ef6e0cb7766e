"""Understudy's settings of failovers: the fence, the hooks, and who approves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirrors.domain.settings.value_types import Boolean, OneOf, Setting, Text, Url

FENCE = "failover.fence"
CONSUMERS = "failover.start.consumers"
PRODUCERS = "failover.redirect.producers"
URL = "failover.webhook.url"
HEADERS = "failover.webhook.headers"
SECRET = "failover.webhook.secret"  # noqa: S105 - the name of a setting
WEBHOOK = "failover.webhook"
COMMAND = "failover.command"
SECOND = "failover.second.person"
_HOOKS = ("person", "webhook", "command", "none")

FAILOVER_KEYS = (
    Setting(
        name=FENCE,
        verdict="ours",
        kind=OneOf(("acl", *_HOOKS)),
        default="acl",
        meaning="How a failover prevents producers from writing on the source: ACLs "
        "that deny WRITE, a webhook, a command, a person who confirms it, or "
        "not at all.",
    ),
    Setting(
        name=CONSUMERS,
        verdict="ours",
        kind=OneOf(_HOOKS),
        default="person",
        meaning="How a failover starts the consumers on the target.",
    ),
    Setting(
        name=PRODUCERS,
        verdict="ours",
        kind=OneOf(_HOOKS),
        default="person",
        meaning="How a failover redirects the producers to the target.",
    ),
    Setting(
        name=WEBHOOK,
        verdict="ours",
        kind=Text(64),
        default=None,
        meaning="The name of the hook that a failover's webhooks call; admins make hooks.",
    ),
    Setting(
        name=URL,
        verdict="ours",
        kind=Url(),
        default=None,
        meaning="The URL of a hook; a flow of an earlier version keeps it, an edit cannot set it.",
    ),
    Setting(
        name=HEADERS,
        verdict="ours",
        kind=Text(2000),
        default=None,
        meaning="Headers of a hook, as comma-separated `Name=reference`; a "
        "reference is env:UNDERSTUDY_NOTIFY_… or a file whose name begins with "
        "notify. An edit of a flow cannot set it.",
    ),
    Setting(
        name=SECRET,
        verdict="ours",
        kind=Text(500),
        default=None,
        meaning="The reference to the secret that signs the calls of a hook. An edit of a flow "
        "cannot set it.",
    ),
    Setting(
        name=COMMAND,
        verdict="ours",
        kind=Text(64),
        default=None,
        meaning="The name of a command in UNDERSTUDY_FAILOVER_COMMANDS; it receives the step.",
    ),
    Setting(
        name=SECOND,
        verdict="ours",
        kind=Boolean(),
        default=None,
        meaning="true: a second person must approve a switchover or failover. A flow cannot "
        "loosen the installation's rule.",
    ),
)
NAMES = tuple(key.name for key in FAILOVER_KEYS)


def contradictions(properties: Mapping[str, str]) -> dict[str, list[str]]:
    """Return sentences by key. Each value is valid by itself."""
    found: dict[str, list[str]] = {}
    for name in (FENCE, CONSUMERS, PRODUCERS):
        how = properties.get(name, "").strip()
        lacking = {"webhook": URL, "command": COMMAND}.get(how)
        if lacking == URL and WEBHOOK in properties:
            continue
        if lacking == URL and lacking not in properties:
            found[name] = [f"{name}={how} needs {WEBHOOK}, the name of a hook."]
        elif lacking is not None and lacking not in properties:
            found[name] = [f"{name}={how} needs {lacking}."]
    if HEADERS in properties and (why := _bad_headers(properties[HEADERS])):
        found[HEADERS] = [why]
    secret = properties.get(SECRET, "env:").strip()
    if not secret.startswith(("env:", "file:")):
        found[SECRET] = [
            f"{SECRET} must be a reference (env:NAME or file:/path), not the secret itself."
        ]
    return found


# What a hook consists of. The person who sets them chooses the address that receives its secrets.
HOOK_KEYS = (URL, HEADERS, SECRET)


def changed_hook_keys(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the keys of a hook that an edit would set or change; it may remove them."""
    return [key for key in HOOK_KEYS if key in after and after[key] != before.get(key)]


def headers_of(text: str) -> dict[str, str]:
    """Return the references by header. The text was validated before."""
    pairs = (part.partition("=") for part in text.split(",") if part.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def hooks_of(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return how this flow's failovers call outside systems, as a run stores it."""
    values = {key.name: properties.get(key.name, key.default) for key in FAILOVER_KEYS}
    return {name: None if text is None else text.strip() for name, text in values.items()}


def fallback(hooks: Mapping[str, Any]) -> str:
    """Return the hook that a run uses if ACLs do not work."""
    if hooks.get(URL) or hooks.get(WEBHOOK):
        return "webhook"
    return "command" if hooks.get(COMMAND) else "person"


def _bad_headers(text: str) -> str:
    for name, value in headers_of(text).items():
        if not name or not value.startswith(("env:", "file:")):
            return (
                f"{HEADERS} must be Name=reference, separated by commas; {name[:64]!r} has no "
                "reference (env:NAME or file:/path)."
            )
    return ""

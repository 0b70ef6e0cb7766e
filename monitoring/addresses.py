"""What the target of a channel may be: people, an address, or a reference to one."""

from __future__ import annotations

import re
import urllib.parse

from mirrors.outgoing import is_reference, refusal
from monitoring.models import ChannelKind

_MAIL = re.compile(r"[^@\s,]+@[^@\s,]+")


def check_target(kind: str, target: str) -> str | None:
    """Why the target of a channel cannot be right; None when it may be."""
    if is_reference(target):
        return refusal(target)
    if kind == ChannelKind.EMAIL:
        people = [part.strip() for part in target.split(",")]
        good = all(_MAIL.fullmatch(part) for part in people)
        return None if good else "Give e-mail addresses, separated by commas."
    if kind == ChannelKind.PAGERDUTY and not target:
        return None
    try:
        parts = urllib.parse.urlsplit(target)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.username
    except ValueError:
        good = False
    return None if good else "Give an address that begins with https:// or http://, or env:NAME."

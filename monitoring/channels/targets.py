"""What the target of a channel may be: people, an address, or a reference to one."""

from __future__ import annotations

import re
import urllib.parse

from mirrors.outbound_http import check_headers, is_reference, refusal
from monitoring.models import Channel, ChannelKind

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


def refused_channels() -> dict[str, str]:
    """Saved channels whose references this deployment refuses: name -> the first reason."""
    found: dict[str, str] = {}
    rows = Channel.objects.order_by("name").values("name", "target", "secret", "headers")
    for row in rows:
        texts = [text for text in (row["target"], row["secret"]) if is_reference(text)]
        refused = [why for text in texts if (why := refusal(text))]
        if why := check_headers(row["headers"]):
            refused.append(why)
        if refused:
            found[f"Channel {row['name']}"] = refused[0]
    return found

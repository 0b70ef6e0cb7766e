"""What a channel may hold: references to secrets made for channels, headers, addresses.

A channel sends what it holds to wherever it points. So that nobody sends a broker's password to an
address of his own, channels see only secrets that were named for them.
"""

from __future__ import annotations

import re
import urllib.parse
from pathlib import PurePath

from mirrors.kafka.secrets import SecretUnavailable, check_reference, resolve
from monitoring.models import ChannelKind

PREFIX = "UNDERSTUDY_NOTIFY_"
FILE_PREFIX = "notify"
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
# Ours to set, or of the connection itself.
_OURS = {"host", "content-length", "content-type", "transfer-encoding", "connection"}
_MAIL = re.compile(r"[^@\s,]+@[^@\s,]+")


def is_reference(text: str) -> bool:
    return text.startswith(("env:", "file:"))


def reveal(reference: str) -> str:
    if sentence := refusal(reference):
        raise SecretUnavailable(sentence)
    return resolve(reference).reveal()


def refusal(reference: str) -> str | None:
    """Why a channel may not use a reference; None when it may."""
    scheme, _, rest = reference.partition(":")
    name = rest if scheme == "env" else PurePath(rest).name
    wanted = PREFIX if scheme == "env" else FILE_PREFIX
    if is_reference(reference) and not name.startswith(wanted):
        return (
            f"Channels use only secrets that were made for them: env:{PREFIX}… or a file whose "
            f"name begins with {FILE_PREFIX}."
        )
    return check_reference(reference)


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


def check_headers(headers: dict[str, str]) -> str | None:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OURS:
            return f"{name[:64]!r} cannot be a header of a channel."
        if not value.isprintable() or not value.isascii() or len(value) > 1000:
            return f"The value of {name} holds characters that no header may hold."
        if is_reference(value) and (sentence := refusal(value)):
            return sentence
    return None

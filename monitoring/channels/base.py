"""What each type of channel declares, and the HTTP POST that most of them share."""

from __future__ import annotations

import dataclasses
import json
import urllib.parse
from collections.abc import Callable
from datetime import datetime
from typing import Any

from mirrors.domain.webhook_signature import signature
from mirrors.outbound_http import Outcome, is_reference, post, reveal
from monitoring.channels.message import Message
from monitoring.models import Channel, ChannelKind

Send = Callable[[Channel, Message, datetime], Outcome]


def check_url(target: str) -> str | None:
    """Why the target is not a URL that a channel can post to; None when it is one."""
    try:
        parts = urllib.parse.urlsplit(target)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.username
    except ValueError:
        good = False
    return None if good else "Enter a URL that begins with https:// or http://, or env:NAME."


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChannelType:
    """One type of channel: its name, its transport, and the checks of its form fields.

    `missing_key` is the error for a channel without a secret; empty if the secret is optional.
    """

    kind: ChannelKind
    title: str
    send: Send
    check_target: Callable[[str], str | None] = check_url
    missing_key: str = ""

    @property
    def template(self) -> str:
        """How to set up the channel, for the form."""
        return f"monitoring/channels/{self.kind.value}.html"


def resolve_reference(text: str) -> str:
    """The value that `env:` or `file:` refers to, or the text itself."""
    return reveal(text) if is_reference(text) else text


def encode(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()


def post_signed(
    channel: Channel, payload: dict[str, Any], message: Message, now: datetime
) -> Outcome:
    """POST the payload with the channel's headers; HMAC-SHA256 signature if it has a secret."""
    body = encode(payload)
    headers = {str(name): resolve_reference(str(text)) for name, text in channel.headers.items()}
    headers["X-Understudy-Delivery"] = message.key
    if channel.secret:
        secret = reveal(channel.secret)
        headers["X-Understudy-Signature"] = signature(body, secret, int(now.timestamp()))
    return post(resolve_reference(channel.target), body, headers)

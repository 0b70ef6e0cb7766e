"""Slack: an incoming webhook. Mattermost and Rocket.Chat accept the same format."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mirrors.outbound_http import Outcome
from monitoring.channels.base import ChannelType, post_signed
from monitoring.channels.message import Message
from monitoring.models import Channel, ChannelKind

_SEVERITY_MARKS = {"critical": "■", "warning": "▲", "info": "●"}


def payload(message: Message) -> dict[str, Any]:
    mark = "✔" if message.what == "resolved" else _SEVERITY_MARKS.get(message.severity, "●")
    lines = [f"{mark} *{_escape(message.subject)}* {_escape(message.sentence)}"]
    lines.append(f"{_escape(message.rule)}, {message.severity}, {message.what}")
    links = [
        f"<{link}|{name}>" for name, link in message.links if link.startswith(("http:", "https:"))
    ]
    text = "\n".join([*lines, *([" · ".join(links)] if links else [])])
    block = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    return {"text": _escape(message.title), "blocks": [block]}


def send(channel: Channel, message: Message, now: datetime) -> Outcome:
    return post_signed(channel, payload(message), message, now)


def _escape(text: str) -> str:
    """Slack's escapes: the name of a topic must not become a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


SLACK = ChannelType(kind=ChannelKind.SLACK, title="Slack", send=send)

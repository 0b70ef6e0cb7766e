"""Microsoft Teams: an Adaptive Card, posted to the webhook of a workflow."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mirrors.outbound_http import Outcome
from monitoring.channels.base import ChannelType, post_signed
from monitoring.channels.message import Message
from monitoring.models import Channel, ChannelKind


def payload(message: Message) -> dict[str, Any]:
    body = [
        {"type": "TextBlock", "text": message.title, "weight": "bolder", "wrap": True},
        {"type": "TextBlock", "text": message.rule, "isSubtle": True, "wrap": True},
    ]
    actions = [
        {"type": "Action.OpenUrl", "title": name, "url": link} for name, link in message.links
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": actions,
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}


def send(channel: Channel, message: Message, now: datetime) -> Outcome:
    return post_signed(channel, payload(message), message, now)


TEAMS = ChannelType(kind=ChannelKind.TEAMS, title="Microsoft Teams", send=send)

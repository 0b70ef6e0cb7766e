"""Webhook: the message as JSON, in the format of docs/operations/monitoring/alerts.md."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from mirrors.outbound_http import Outcome
from monitoring.channels.base import ChannelType, post_signed
from monitoring.channels.message import Message
from monitoring.models import Channel, ChannelKind


def payload(message: Message) -> dict[str, Any]:
    return {"version": 1, **dataclasses.asdict(message), "at": message.at.isoformat()}


def send(channel: Channel, message: Message, now: datetime) -> Outcome:
    return post_signed(channel, payload(message), message, now)


WEBHOOK = ChannelType(kind=ChannelKind.WEBHOOK, title="Webhook", send=send)

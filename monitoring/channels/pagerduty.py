"""PagerDuty: Events API v2. The secret of the channel is the routing key of the service."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mirrors.outbound_http import Outcome, post, reveal
from monitoring.channels.base import ChannelType, check_url, encode, resolve_reference
from monitoring.channels.message import Message
from monitoring.models import Channel, ChannelKind

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"
_SEVERITIES = {"critical": "critical", "warning": "warning", "info": "info"}


def payload(message: Message, routing_key: str) -> dict[str, Any]:
    """`dedup_key` makes one incident of all events of an alert, also of repeated ones."""
    return {
        "routing_key": routing_key,
        "event_action": "resolve" if message.what == "resolved" else "trigger",
        "dedup_key": message.alert,
        "payload": {
            "summary": message.title[:1024],
            "source": message.subject,
            "severity": _SEVERITIES.get(message.severity, "warning"),
            "timestamp": message.at.isoformat(),
            "custom_details": {"rule": message.rule, **message.labels},
        },
        "links": [{"href": link, "text": name} for name, link in message.links],
    }


def send(channel: Channel, message: Message, now: datetime) -> Outcome:
    body = encode(payload(message, reveal(channel.secret)))
    return post(resolve_reference(channel.target) or EVENTS_URL, body, {})


def check_target(target: str) -> str | None:
    """Without a target, PagerDuty's own address is used."""
    return check_url(target) if target else None


PAGERDUTY = ChannelType(
    kind=ChannelKind.PAGERDUTY,
    title="PagerDuty",
    send=send,
    check_target=check_target,
    missing_key="PagerDuty needs the routing key of its service, as a reference.",
)

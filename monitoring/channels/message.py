"""What is sent of an alert, in the shape that each kind of channel reads; and when to try again."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timedelta
from typing import Any

ATTEMPTS = 8
_FIRST_S = 10.0
_LONGEST_S = 900.0
_PAGERDUTY_SEVERITY = {"critical": "critical", "warning": "warning", "info": "info"}
_SHAPES = {"critical": "■", "warning": "▲", "info": "●"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Message:
    """One thing to tell. `key` is the same at every try; `alert` through the alert's whole life."""

    key: str
    alert: str
    what: str
    rule: str
    severity: str
    subject: str
    sentence: str
    at: datetime
    link: str = ""
    runbook: str = ""
    labels: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def title(self) -> str:
        word = {"firing": self.severity, "resolved": "resolved", "test": "test"}[self.what]
        return f"[{word}] {self.subject} {self.sentence}"


def webhook(message: Message) -> dict[str, Any]:
    return {"version": 1, **dataclasses.asdict(message), "at": message.at.isoformat()}


def slack(message: Message) -> dict[str, Any]:
    """Slack's incoming webhook; Mattermost and Rocket.Chat read the same."""
    shape = "✔" if message.what == "resolved" else _SHAPES.get(message.severity, "●")
    lines = [f"{shape} *{_plain(message.subject)}* {_plain(message.sentence)}"]
    lines.append(f"{_plain(message.rule)}, {message.severity}, {message.what}")
    links = [
        f"<{link}|{name}>" for name, link in _links(message) if link.startswith(("http:", "https:"))
    ]
    text = "\n".join([*lines, *([" · ".join(links)] if links else [])])
    block = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    return {"text": _plain(message.title), "blocks": [block]}


def teams(message: Message) -> dict[str, Any]:
    """An adaptive card, as Teams' workflows take it."""
    body = [
        {"type": "TextBlock", "text": message.title, "weight": "bolder", "wrap": True},
        {"type": "TextBlock", "text": message.rule, "isSubtle": True, "wrap": True},
    ]
    actions = [
        {"type": "Action.OpenUrl", "title": name, "url": link} for name, link in _links(message)
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


def pagerduty(message: Message, routing_key: str) -> dict[str, Any]:
    """Events API v2: one incident through the alert's life, whatever is sent twice."""
    return {
        "routing_key": routing_key,
        "event_action": "resolve" if message.what == "resolved" else "trigger",
        "dedup_key": message.alert,
        "payload": {
            "summary": message.title[:1024],
            "source": message.subject,
            "severity": _PAGERDUTY_SEVERITY.get(message.severity, "warning"),
            "timestamp": message.at.isoformat(),
            "custom_details": {"rule": message.rule, **message.labels},
        },
        "links": [{"href": link, "text": name} for name, link in _links(message)],
    }


def email(message: Message) -> tuple[str, str]:
    """Subject and text."""
    lines = [f"{message.subject} {message.sentence}.", ""]
    lines += [
        f"Rule: {message.rule} ({message.severity})",
        f"At: {message.at:%Y-%m-%d %H:%M:%S} UTC",
    ]
    lines += [f"{name}: {link}" for name, link in _links(message)]
    return " ".join(message.title.split())[:200], "\n".join(lines) + "\n"


def body_of(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()


def again_at(attempt: int, now: datetime, wait_s: float | None = None) -> datetime | None:
    """When to try again after so many tries; None when it is time to give up."""
    if attempt >= ATTEMPTS:
        return None
    delay = min(_LONGEST_S, _FIRST_S * 2 ** (attempt - 1))
    return now + timedelta(seconds=max(delay, min(wait_s or 0, _LONGEST_S)))


def _links(message: Message) -> list[tuple[str, str]]:
    found = [("Open in Understudy", message.link), ("Runbook", message.runbook)]
    return [(name, link) for name, link in found if link]


def _plain(text: str) -> str:
    """Slack's own escapes: a topic's name must not become a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

"""The message of one delivery, before a channel gives it its format."""

from __future__ import annotations

import dataclasses
from datetime import datetime


@dataclasses.dataclass(frozen=True, kw_only=True)
class Message:
    """What happened to an alert.

    `key` is the same for each attempt of a delivery, `alert` for all messages of an alert.
    """

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

    @property
    def links(self) -> list[tuple[str, str]]:
        """Name and URL of the page and of the runbook; empty without UNDERSTUDY_URL."""
        found = [("Open in Understudy", self.link), ("Runbook", self.runbook)]
        return [(name, link) for name, link in found if link]

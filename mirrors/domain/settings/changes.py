"""What is kept of an edit: each key with its value before and after, and never a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "(hidden)"
_SECRET = re.compile(r"(?i)password|passwd|secret|api[._-]?key|private[._-]?key|jaas|credential")
_REFERENCES = ("env:", "file:")


def kept(key: str, value: str | None) -> str | None:
    """A value as the history shows it. A reference says where a secret is, not what it is."""
    if value is None or not _SECRET.search(key) or value.startswith(_REFERENCES):
        return value
    return HIDDEN


def first_edit(properties: Mapping[str, str]) -> list[dict[str, str | None]]:
    """The settings that a flow is made with, as an edit of nothing."""
    return [
        {"key": key, "before": None, "after": value} for key, value in sorted(properties.items())
    ]

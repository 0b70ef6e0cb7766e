"""The history of an edit: each key with its value before and after, never a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "(hidden)"
_SECRET = re.compile(r"(?i)password|passwd|secret|api[._-]?key|private[._-]?key|jaas|credential")
_REFERENCES = ("env:", "file:")


def redacted_value(key: str, value: str | None) -> str | None:
    """Return a value as the history shows it. A reference is no secret."""
    if value is None or not _SECRET.search(key) or value.startswith(_REFERENCES):
        return value
    return HIDDEN


def initial_changes(properties: Mapping[str, str]) -> list[dict[str, str | None]]:
    """Return the first settings of a flow as an edit of nothing."""
    return [
        {"key": key, "before": None, "after": value} for key, value in sorted(properties.items())
    ]

"""The history of an edit: each key with its value before and after, never a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

HIDDEN = "(hidden)"
_SECRET = re.compile(r"(?i)password|passwd|secret|api[._-]?key|private[._-]?key|jaas|credential")
_REFERENCES = ("env:", "file:")


def redacted_value(key: str, value: str | None) -> str | None:
    """Return a value as the history shows it. A reference is no secret."""
    if value is None or not _SECRET.search(key) or value.startswith(_REFERENCES):
        return value
    return HIDDEN


def changes_sentence(changes: Iterable[Mapping[str, str | None]]) -> str:
    """The edit in the words of the form: `delivery: not set → at_least_once`."""
    return "; ".join(
        f"{(key := str(change['key']))}: {_shown(key, change['before'])} → "
        f"{_shown(key, change['after'])}"
        for change in changes
    )


def _shown(key: str, value: str | None) -> str:
    return redacted_value(key, value) or "not set"


def initial_changes(properties: Mapping[str, str]) -> list[dict[str, str | None]]:
    """Return the first settings of a flow as an edit of nothing."""
    return [
        {"key": key, "before": None, "after": value} for key, value in sorted(properties.items())
    ]

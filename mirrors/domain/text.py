"""Text from outside as a database holds it: PostgreSQL refuses NUL, in text and in JSON."""

from __future__ import annotations

INSTEAD = "\N{REPLACEMENT CHARACTER}"


def without_nul(text: str) -> str:
    return text.replace("\0", INSTEAD)


def on_one_line(text: str) -> str:
    """What a program or server said, for a sentence: no line breaks and no NUL."""
    return " ".join(without_nul(text).split())

"""Text forms of figures (counts, durations, bytes, names), and when figures are old."""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Collection
from datetime import timedelta

# A status older than this is history. Runners write one every second.
OLD_AFTER = timedelta(seconds=15)
# A flow that replicates but lags more than this needs attention.
BEHIND_AFTER_MS = 30_000
UNKNOWN = "–"  # noqa: RUF001 - the sign of the look for "not known", never a minus

_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
# Invisible characters and direction overrides can make one name look like another.
_HIDDEN = {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"}


def count(value: int | None) -> str:
    """Return `1,204,331` for 1204331, and a dash if unknown."""
    return UNKNOWN if value is None else f"{value:,}"


def duration(milliseconds: float | None) -> str:
    """Return the two leading units: `2 min 5 s`, `3 d 4 h`; below ten seconds one decimal."""
    if milliseconds is None:
        return UNKNOWN
    seconds = max(0.0, milliseconds / 1000)
    if 0 < seconds < 10 and round(seconds, 1) != round(seconds):
        return f"{seconds:.1f} s"
    left = round(seconds)
    parts: list[str] = []
    for size, unit in _STEPS:
        amount, left = divmod(left, size)
        if amount:
            parts.append(f"{amount} {unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts) or "0 s"


def duration_range(milliseconds: Collection[float]) -> str:
    """Return `2 s to 19 s`; one duration where the shortest and the longest read the same."""
    ends = [
        duration(round(bound / 1000) * 1000) for bound in (min(milliseconds), max(milliseconds))
    ]
    return " to ".join(dict.fromkeys(ends))


def size(value: float | None) -> str:
    """Return decimal units with two or three digits: `0 B`, `512 B`, `4.1 kB`, `41 MB`."""
    if value is None:
        return UNKNOWN
    amount = float(value)
    for unit in _SIZES:
        if amount < 999.5 or unit == _SIZES[-1]:
            return f"{amount:.1f} {unit}" if 0 < amount < 9.95 else f"{amount:.0f} {unit}"
        amount /= 1000
    raise AssertionError("the last unit takes every amount")


def rate(value: float | None) -> str:
    """Return records per second: whole from ten up, one decimal below."""
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}" if 0 < value < 9.95 else f"{value:,.0f}"


def visible(text: str) -> str:
    """Return the text with control characters and direction overrides escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(sign) for sign in text)


def _shown(sign: str) -> str:
    if unicodedata.category(sign) not in _HIDDEN:
        return sign
    code = ord(sign)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def short_name(name: str) -> str:
    """Return a long name of Kafka's shortened to its beginning and its end."""
    return name if len(name) <= 60 else f"{name[:40]}…{name[-12:]}"


def arrow(flow_name: str) -> str:
    """Return `primary->backup` as `primary→backup`, for people."""
    return flow_name.replace("->", "→")


def plural(amount: int, one: str, many: str = "") -> str:
    """Return `1 record` or `2 records`, with grouped digits."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


INSTEAD = "\N{REPLACEMENT CHARACTER}"


def without_nul(text: str) -> str:
    return text.replace("\0", INSTEAD)


def on_one_line(text: str) -> str:
    """Return a message of a program or server without line breaks and NUL."""
    return " ".join(without_nul(text).split())


def bytes_as_json(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return a field of a record. Bytes that are not UTF-8 become `…_base64`: none is lost."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}

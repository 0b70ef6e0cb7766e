"""Hides the values of secrets that this process read, wherever a log line repeats them.

Redaction by shape misses a secret in an unknown form. So each value is noted where it is read, and
its usual encodings are hidden wherever they occur: as it is, in a URL, in JSON, in base64.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import urllib.parse

HIDDEN = "***"
# A shorter value would hide parts of ordinary words.
SHORTEST = 6
MOST_VALUES = 2000
# A password of the examples: hiding it would hide the product's name. Deployments refuse it.
_WORDS = frozenset({"understudy"})
_PUBLIC = "-----BEGIN CERTIFICATE-----"

_lock = threading.Lock()
_values: dict[str, None] = {}
_pattern: re.Pattern[str] | None = None


def note(value: str) -> str:
    """Remember a secret that was read; returns it. The oldest of very many are forgotten."""
    global _pattern
    if len(value) < SHORTEST or value.lower() in _WORDS or value.startswith(_PUBLIC):
        return value
    with _lock:
        if value in _values:
            return value
        _values[value] = None
        while len(_values) > MOST_VALUES:
            del _values[next(iter(_values))]
        forms = {form for known in _values for form in _forms(known)}
        _pattern = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
    return value


def note_url(url: str) -> str:
    """Remember the password in a URL such as `postgresql://user:password@host`; returns the URL."""
    try:
        password = urllib.parse.urlsplit(url).password
    except ValueError:
        password = None
    note(urllib.parse.unquote(password or ""))
    return url


def hide(text: str) -> str:
    """Replace every known value, in each of its forms."""
    pattern = _pattern
    return text if pattern is None else pattern.sub(HIDDEN, text)


def _forms(value: str) -> set[str]:
    raw = value.encode()
    encoded = {
        value,
        urllib.parse.quote(value, safe=""),
        urllib.parse.quote_plus(value),
        json.dumps(value)[1:-1],
        repr(value)[1:-1],
        base64.b64encode(raw).decode().rstrip("="),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
    }
    return {form for form in encoded if len(form) >= SHORTEST}

"""Parses and writes Java properties files with line numbers, as `java.util.Properties` does."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

_BLANKS = " \t\f"
_ENDS = re.compile(r"\r\n|\r|\n")
_ENTRY = re.compile(
    r"(?P<key>(?:[^\\=: \t\f]|\\.)*\\?)[ \t\f]*(?:[=:][ \t\f]*)?(?P<value>.*)", re.DOTALL
)
_ESCAPE = re.compile(r"\\(u.{0,4}|.|$)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAMES = {letter: f"\\{name}" for name, letter in _LETTERS.items()}


@dataclasses.dataclass(frozen=True)
class PropertyLine:
    """One key and value. `number` is the number of its first line, from 1."""

    number: int
    key: str
    value: str


@dataclasses.dataclass(frozen=True)
class Fault:
    """A line that Java would not read, and why. It never contains the line."""

    number: int
    reason: str


def read_properties(text: str) -> tuple[list[PropertyLine], list[Fault]]:
    """Return all lines in order, including repeated keys; in Java the last one counts."""
    found: list[PropertyLine] = []
    faults: list[Fault] = []
    for number, logical in _logical_lines(text):
        entry = _ENTRY.fullmatch(logical)
        assert entry is not None  # noqa: S101 - every part of the pattern may be empty
        try:
            found.append(PropertyLine(number, _plain(entry["key"]), _plain(entry["value"])))
        except ValueError as error:
            faults.append(Fault(number, str(error)))
    return found, faults


def property_line(key: str, value: str) -> str:
    """Return one line that `read_properties`, and Java, read back as this key and value."""
    name = re.sub(r"[\\=: #!]", r"\\\g<0>", key)
    # Only blanks in front of a value are lost; what follows may stand as it is.
    body = value.replace("\\", "\\\\")
    if body.startswith(" "):
        body = f"\\{body}"
    return f"{_escaped(name)}={_escaped(body)}"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join lines that end with an odd number of backslashes; leave out comments."""
    lines = _ENDS.split(text)
    if not lines[-1]:
        lines.pop()
    start, buffer, open_end = 0, "", False
    for number, natural in enumerate(lines, start=1):
        body = natural.lstrip(_BLANKS)
        if not buffer:
            open_end, start = False, number
            if not body or body[0] in "#!":
                continue
        slashes = len(body) - len(body.rstrip("\\"))
        if open_end := slashes % 2 == 1:
            buffer += body[:-1]
        else:
            yield start, buffer + body
            buffer = ""
    if buffer or open_end:
        yield start, buffer


def _plain(text: str) -> str:
    r"""Resolve escapes, and join two \\u halves of one character, as in Java's strings."""
    if "\\" not in text:
        return text
    units = _ESCAPE.sub(_resolved, text)
    try:
        return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeDecodeError:
        raise ValueError(
            "a \\uXXXX is half of a surrogate pair; write both halves, or the character itself"
        ) from None


def _resolved(found: re.Match[str]) -> str:
    word = found[1]
    if not word.startswith("u"):
        return _LETTERS.get(word, word)
    digits = word[1:]
    if len(digits) < 4 or not all(letter in "0123456789abcdefABCDEF" for letter in digits):
        raise ValueError("\\u must be followed by four hexadecimal digits; write \\\\u for \\u")
    return chr(int(digits, 16))


def _escaped(text: str) -> str:
    return "".join(
        letter if " " <= letter <= "~" else _NAMES.get(letter) or _units(letter) for letter in text
    )


def _units(letter: str) -> str:
    raw = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{raw[at]:02X}{raw[at + 1]:02X}" for at in range(0, len(raw), 2))

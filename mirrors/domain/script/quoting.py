"""Words of a shell script that mean exactly one text, whatever it holds."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Iterator


def can_be_said(text: str) -> bool:
    """Whether a command line can carry it: no argument holds a NUL, or half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def word(text: str) -> str:
    return shlex.quote(text)


def comment(text: str) -> str:
    """For a line that is not run: nothing in it can end the line."""
    return "# " + "".join(sign if sign.isprintable() else "?" for sign in text)


def csv_line(*fields: object) -> str:
    """One line as Kafka's tools read it from a file of places."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(fields)
    return out.getvalue()


def call(name: str, words: Iterable[str], *, indent: str = "  ") -> Iterator[str]:
    """A function with a word a line, so that a person can read and change it."""
    lines = [f"{indent}{name}", *(f"{indent}  {word(text)}" for text in words)]
    for line in lines[:-1]:
        yield f"{line} \\"
    yield lines[-1]

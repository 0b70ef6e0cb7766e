"""The last lines of a runner's log: limited, without secrets, and filtered by flow."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

MOST_LINES = 200
LONGEST_LINE = 1_000

# As `spark_runner` writes them: time in UTC, level, logger, thread.
_BEGINS = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[,.\d]* ([A-Z]+) (.*)")
# Specs hold only references, but a client's error message could quote a setting.
_SETTING = re.compile(
    r"(?i)([\w.\-]*(?:password|secret|token|jaas\.config|api[._-]?key))\s*[=:]\s*\S+"
)
_IN_ADDRESS = re.compile(r"://[^/\s@]+@")


@dataclasses.dataclass
class Entry:
    """One line and its continuation lines, such as the stack of an error."""

    when: str
    level: str
    text: str


def last_lines(text: str, most: int = MOST_LINES) -> list[str]:
    """Return the newest lines in order; long ones are cut and marked."""
    lines = [line for line in text.splitlines() if line.strip()][-most:]
    return [_clipped(_without_secrets(line)) for line in lines]


def entries(lines: Sequence[str]) -> list[Entry]:
    """Return entries for people, the newest first.

    Continuation lines without a beginning are entries of their own.
    """
    found: list[Entry] = []
    for line in lines:
        if begun := _BEGINS.match(line):
            found.append(Entry(begun[1], begun[2].lower(), begun[3]))
        elif found:
            found[-1].text += f"\n{line}"
        else:
            found.append(Entry("", "", line))
    return found[::-1]


def of_flow(lines: Sequence[str], *, flow: int, name: str) -> list[str]:
    """Return the lines about one flow, each with its continuation lines."""
    label = rf"(?<![\w.\-]){re.escape(name)}(?![\w.\-])"
    # The threads of a flow; `clerk` in logs of earlier versions.
    speaks = re.compile(rf"\[(?:flow|calls|clerk)-{flow}\]|\bFlow {flow}\b|{label}")
    found, inside = [], False
    for line in lines:
        if _BEGINS.match(line):
            inside = speaks.search(line) is not None
        if inside:
            found.append(line)
    return found


def _without_secrets(line: str) -> str:
    return _IN_ADDRESS.sub("://[hidden]@", _SETTING.sub(r"\1=[hidden]", line))


def _clipped(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"
